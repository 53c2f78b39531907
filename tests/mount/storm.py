"""Switches under readers. Every reader notes the switches known to be done before its open and begun after its read: what
it got must belong to a state in force between them."""
import harness
import processes
import tars
import torch_order
from harness import MountCase, wait_until


def text_of(epoch, after):
    return b"%d after %d\n" % (epoch, after) if after else b"%d\n" % epoch


class StormCase(MountCase):
    N = 200

    def storm(self, options, control, states, switches, readers):
        """`states`: (epoch, after), the first in force at the start. `readers`: for each reader its folder,
        samples(epoch, after) there, and does it follow the control file."""
        data_set = tars.make_dataset(self.tmp / "shards", self.N, cls=lambda i: b"%d" % i, size=tars.odd_size)
        mount = self.mount(data_set.shards, options)
        draw = torch_order.generator(5)
        plan = [0]
        for _ in range(switches):
            plan.append(draw.choice([state for state in range(len(states)) if state != plan[-1]]))
        begun, done = (processes.FORK.Value("q", 0, lock=False) for _ in range(2))
        reads = processes.FORK.Array("q", len(readers), lock=False)
        over = processes.FORK.Event()

        def got_at(folder, position, field):
            try:
                return harness.read(mount.path("current", folder, "%08d.%s" % (position, field)))
            except FileNotFoundError:
                return None  # what is left of an epoch may be shorter

        def reader(number, folder, samples, follows):
            orders = [samples(*state) for state in states]
            pick, exact = torch_order.generator(100 + number), 0
            while not over.is_set():
                position = pick.randrange(len(orders[0]))
                field = pick.choice(("jpg", "cls"))
                first = done.value
                got = got_at(folder, position, field)
                last = begun.value
                shown = set(plan[first:last + 1]) if follows else {0}
                allowed = [data_set.data(orders[state][position], field) if position < len(orders[state]) else None
                           for state in shown]
                assert got in allowed, "%s/%08d.%s: %r is stale; switches %d to %d, %s" % (
                    folder, position, field, got and got[:30], first, last, [states[state] for state in sorted(shown)])
                exact += len(shown) == 1
                reads[number] += 1
            return [reads[number], exact]

        with processes.Children() as children:
            for number, what in enumerate(readers):
                children.start(reader, number, *what)
            for switch in range(1, switches + 1):
                begun.value = switch
                mount.set_epoch(text_of(*states[plan[switch]]), control)
                done.value = switch
                # Some switches follow at once, others after readers had time to read in one state only.
                target = sum(reads) + draw.choice((0, 0, 1, 10, 40))
                wait_until(lambda: sum(reads) >= target or self.one_ended(children), "the readers go on")
            over.set()
            results = children.results()
        for total, exact in results:
            self.assertGreater(total, 50)
            self.assertGreater(exact, 20)

    @staticmethod
    def one_ended(children):
        return any(processes.has_ended(pid) for pid, _ in children.running)
