"""The manual pages and the README name what the programs have, no more and no less."""
import re

import harness
import tars
from harness import MountCase, binary, run

ROOT = harness.ROOT


def page(name):
    return (ROOT / "man" / (name + ".1")).read_text(encoding="utf-8")


class Manuals(MountCase):
    def help(self, *command):
        return run([binary(command[0]), *command[1:], "--help"]).stdout

    def test_long_options_are_those_of_the_help(self):
        read, load = page("shufflefs-bench").split(".Ss Loading")
        for command, text in ((["shufflefs"], page("shufflefs")), (["shufflefs-order"], page("shufflefs-order")),
                              (["shufflefs-pack"], page("shufflefs-pack")),
                              (["shufflefs-top"], page("shufflefs-top")),
                              (["shufflefs-check"], page("shufflefs-check")), (["shufflefs-bench", "read"], read),
                              (["shufflefs-bench", "load"], load)):
            told = set(re.findall(r"--([a-z][a-z-]+)", self.help(*command)))
            written = set(re.findall(r"Fl -([a-z-]+)", text))
            # The page has these two once, for both commands.
            both = {"help", "version"} if command[0] == "shufflefs-bench" else set()
            self.assertEqual(told - both, written - both, command)

    def test_mount_options_are_those_of_the_help(self):
        told = set(re.findall(r"\b([a-z_]{3,})(?==)", self.help("shufflefs").split("--version")[1]))
        told = told - {"shuffle"} | {"strict", "allow_other", "debug", "drop_last"}
        section = page("shufflefs").split(".Sh MOUNT OPTIONS")[1].split(".Ss CONFIGURATION FILE")[0]
        written = set()
        for line in section.splitlines():
            if line.startswith(".It Cm "):
                written |= set(re.findall(r"(?:\.It|,) Cm ([a-z_]+)", line))
        self.assertEqual(told, written)
        table = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Options\n")[1].split("\n## ")[0]
        rows = "".join(line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `"))
        self.assertEqual(told, set(re.findall(r"`([a-z_]+)", rows)))

    def test_the_status_has_the_keys_that_are_told(self):
        status = self.mount(tars.make_dataset(self.tmp / "shards", 10).shards).status()
        section = page("shufflefs").split(".Sh STATUS")[1].split(".Sh FILES")[0]
        items = " ".join(line for line in section.splitlines() if line.startswith(".It Li"))
        self.assertEqual(set(status), set(re.findall(r"[a-z_]{4,}", items)))
        table = (ROOT / "README.md").read_text(encoding="utf-8").split("\n### The status\n")[1].split("\n## ")[0]
        rows = " ".join(line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `"))
        self.assertEqual(set(status), set(re.findall(r"`([a-z_]+)`", rows)))

    def test_the_readmes_house_lists_every_file_and_nothing_else(self):
        house = (ROOT / "README.md").read_text(encoding="utf-8").split("\n### The house\n")[1].split("\n### ")[0]
        rooms = dict(re.findall(r"(?m)^    ([a-z]+)/ .*\n((?:      .*\n)*)", house))
        for room in ("core", "fs", "pack", "top", "check", "survey", "measure", "loader"):
            listed = re.findall(r"(?m)^ {6,}((?:[a-z0-9_]+/? )*[a-z0-9_]+/?)(?:  |$)", rooms[room])
            listed = {word for words in listed for word in words.split() if not word.endswith("/")}
            there = {path.stem for path in (ROOT / room).iterdir() if path.suffix in (".c", ".h", ".cu")}
            self.assertEqual(listed, there, room)
        modules = {path.stem for path in (ROOT / "python").glob("*/_*.py")} - {"__init__"}
        self.assertEqual(set(re.findall(r"(?<=\s)_[a-z]+", rooms["python"])), modules)

    def test_the_readmes_links_lead_to_its_headings(self):
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        headings = re.findall(r"(?m)^##+ (.*)$", text)
        places = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
        self.assertEqual(len(places), len(set(places)))
        self.assertEqual(set(re.findall(r"\]\(#([^)]*)\)", text)) - set(places), set())
        contents = re.findall(r"\]\(#([^)]*)\)", text.split("\n## Contents\n")[1].split("\n## ")[0])
        self.assertEqual(["contents"] + contents, places)
