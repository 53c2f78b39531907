"""docs/figures.md shows what was measured: page, pictures and docs/figures/measured.json say the same."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import re
import shutil
import statistics
import subprocess
import sys
import xml.etree.ElementTree

import harness
from harness import MountCase

FIGURES = harness.ROOT / "bench" / "figures"


def load_figures():
    """The program as a module: starting it for each question would take longer than all it does."""
    loader = importlib.machinery.SourceFileLoader("figures", str(FIGURES))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("figures", loader))
    before = list(sys.path)
    loader.exec_module(module)
    sys.path[:] = before
    return module


figures = load_figures()
SVG = "{http://www.w3.org/2000/svg}"
NUMBER = r"-?[0-9][0-9,.]*(?:e-?[0-9]+)?"
THREE = re.compile(r"^(%s)(?: \((%s) - (%s)\))?$" % (NUMBER, NUMBER, NUMBER))
PARTS = {"peers": "peers-warm peers-cold peers-slow", "loader": "batches", "photographs": "files", "slow": "waiting",
         "block": "blocks", "python": "python"}


def shown(text):
    """The one to three numbers of a cell; None: it holds none."""
    found = THREE.match(text)
    return found and tuple(float(word.replace(",", "")) for word in found.groups() if word)


def about(a, b):
    """As numbers of three digits are."""
    return len(a) == len(b) and all(abs(x - y) <= max(0.006 * abs(y), 1e-9) for x, y in zip(a, b))


def three(values):
    return (statistics.median(values), min(values), max(values)) if len(values) > 1 else tuple(values)


def made_up(part="peers", scale=1.0):
    """What bench/run writes, with figures that nobody measured."""
    names = {"torchvision": 500, "webdataset": 400}
    figures = []
    for where in ("page cache warm", "from the local disk, cold", "5 ms a read"):
        for name, rate in names.items():
            files, mount = [rate, rate + 30, rate + 10], [rate * scale, rate * scale + 20, rate * scale + 5]
            for words, values in (("on files", files), ("on the mount", mount),
                                  ("on the mount / on files", [b / a for a, b in zip(files, mount)])):
                figures.append({"part": part, "section": "Loaders pointed at the mount, %s: made up" % where,
                                "name": (name + ", " if "/" in words else name + " ") + words, "unit": "", "values": values})
    about = {"machine": "none", "cores": 2, "date": "2026-01-01", "data": "9 photographs of 1 KB", "rounds": 3, "seconds": 1,
             "load_average": [0.1, 1.0]}
    left_out = [{"part": part, "name": "tf.data", "reason": "not installed: tensorflow"},
                {"part": part, "name": "webdataset, warm", "reason": "it hung"}]
    return {"machine": "none", "notes": [], "parts": {part: about}, "figures": figures, "left_out": left_out}


class Figures(MountCase):
    def setUp(self):
        super().setUp()
        self.docs = self.tmp / "docs"

    def figures(self, *words):
        """(exit status, what it complained of)"""
        complaint = io.StringIO()
        with contextlib.redirect_stderr(complaint):
            return figures.main(["--docs", str(self.docs), *map(str, words)]), complaint.getvalue()

    def made_page(self, **options):
        """A page of made-up figures, with none of the real ones."""
        (self.docs / "figures").mkdir(parents=True)
        shutil.copy(harness.ROOT / "docs" / "figures.md", self.docs)
        told = self.tmp / "told.json"
        told.write_text(json.dumps(made_up(**options)), encoding="utf-8")
        self.assertEqual(self.figures(told), (0, ""))
        return told

    def test_the_page_and_its_pictures_are_those_of_what_was_measured(self):
        done = subprocess.run([sys.executable, str(FIGURES), "--check"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_every_number_of_the_page_and_of_its_pictures_was_measured(self):
        told = json.loads((harness.ROOT / "docs" / "figures" / "measured.json").read_text(encoding="utf-8"))
        page = (harness.ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
        sections = dict(re.findall(r"(?s)<!-- figure ([a-z-]+) -->\n(.*?)<!-- end -->", page))
        self.assertEqual(set(sections), set(" ".join(PARTS.values()).split()))
        for part, names in PARTS.items():
            measured = [three(figure["values"]) for figure in told["figures"] if figure["part"] == part]
            for name in names.split():
                cells = [shown(cell.strip()) for line in sections[name].splitlines() if line.startswith("|")
                         for cell in line.split("|")[2:-1]]
                cells = [cell for cell in cells if cell]
                self.assertEqual(bool(cells), part in told["parts"], name)
                for cell in cells:
                    self.assertTrue(any(about(cell, one) for one in measured), (name, cell))
                if cells:
                    for text in self.bars(harness.ROOT / "docs" / "figures" / (name + ".svg")):
                        self.assertIn(text, cells, name)

    def bars(self, path):
        """The numbers beside a picture's bars. A bar is as long as its number says."""
        texts = []
        for panel in xml.etree.ElementTree.parse(path).getroot().iter(SVG + "g"):
            widths = [float(one.get("width")) for one in panel.iter(SVG + "rect")]
            values = [shown(one.text) for one in panel.iter(SVG + "text") if one.get("class") == "value"]
            self.assertEqual(len(widths), len(values))
            self.assertTrue(values)
            longest = max(range(len(values)), key=lambda k: widths[k])
            for width, value in zip(widths, values):
                expected = value[0] * widths[longest] / values[longest][0]
                self.assertAlmostEqual(width, expected, delta=0.011 * widths[longest], msg=(path, value))
            texts += values
        self.assertTrue(texts)
        return texts

    def test_a_number_that_was_changed_by_hand_is_found(self):
        self.made_page()
        self.assertEqual(self.figures("--check")[0], 0)
        for path, old, new in ((self.docs / "figures.md", "510", "511"),
                               (self.docs / "figures" / "peers-warm.svg", ">510", ">511"),
                               (self.docs / "figures" / "measured.json", "530", "531")):
            before = path.read_text(encoding="utf-8")
            self.assertIn(old, before)
            path.write_text(before.replace(old, new, 1), encoding="utf-8")
            status, complaint = self.figures("--check")
            self.assertEqual(status, 1)
            self.assertIn("is not what", complaint)
            path.write_text(before, encoding="utf-8")

    def test_a_picture_of_nothing_measured_is_found_and_taken_away(self):
        self.made_page()
        stale = self.docs / "figures" / "other.svg"
        stale.write_text("<svg/>", encoding="utf-8")
        self.assertEqual(self.figures("--check")[0], 1)
        self.assertEqual(self.figures()[0], 0)
        self.assertFalse(stale.exists())

    def test_a_part_that_was_measured_again_takes_the_place_of_the_old_one_and_leaves_the_others(self):
        self.made_page()
        told = made_up(scale=2.0)
        other = {"part": "loader", "section": "Photographs to batches: made up", "name": "ffcv", "unit": "",
                 "values": [77, 78, 79]}
        more = self.tmp / "more.json"
        more.write_text(json.dumps({"parts": {"loader": told["parts"]["peers"]}, "figures": [other], "left_out": []}))
        again = self.tmp / "again.json"
        again.write_text(json.dumps(told), encoding="utf-8")
        self.assertEqual(self.figures(more)[0], 0)
        self.assertEqual(self.figures(again)[0], 0)
        page = (self.docs / "figures.md").read_text(encoding="utf-8")
        self.assertIn("| FFCV | 78.00 (77.00 - 79.00) |", page)
        self.assertIn("| 510 (500 - 530) | 1,005 (1,000 - 1,020) |", page)
        self.assertNotIn("505 (500", page)
        self.assertEqual(len(self.bars(self.docs / "figures" / "peers-warm.svg")), 4)

    def test_what_was_left_out_and_a_machine_that_was_busy_are_told(self):
        told = self.made_page()
        text = (self.docs / "figures.md").read_text(encoding="utf-8")
        self.assertEqual(text.count("Left out: tf.data: not installed: tensorflow."), 3)
        self.assertEqual(text.count("Left out: webdataset, warm: it hung."), 1)
        self.assertNotIn("Other work had the machine", text)
        busy = made_up()
        busy["parts"]["peers"]["load_average"] = [9.0, 9.0]
        told.write_text(json.dumps(busy), encoding="utf-8")
        self.assertEqual(self.figures(told)[0], 0)
        self.assertIn("load average 9.0 at the start", (self.docs / "figures.md").read_text(encoding="utf-8"))
        self.assertIn("Other work had the machine", (self.docs / "figures.md").read_text(encoding="utf-8"))

    def test_a_file_that_holds_no_figures_is_refused_and_changes_nothing(self):
        told = self.made_page()
        before = (self.docs / "figures.md").read_bytes()
        for text in ("", "{}", "[1]", '{"parts": {}, "figures": [{}], "left_out": []}'):
            told.write_text(text, encoding="utf-8")
            status, complaint = self.figures(told)
            self.assertEqual(status, 2, text)
            self.assertIn(str(told), complaint)
        self.assertEqual(self.figures(self.tmp / "missing.json")[0], 2)
        self.assertEqual((self.docs / "figures.md").read_bytes(), before)
