"""The recipes of README.md and of docs/, as they are written there."""
import textwrap

import harness


def recipe(section, word, page="README.md"):
    """The code block of a section that has `word`."""
    text = (harness.ROOT / page).read_text(encoding="utf-8").split("\n### %s\n" % section)[1]
    text = text.split("\n### ")[0].split("\n## ")[0]
    blocks, block = [], []
    for line in text.splitlines() + ["."]:
        if line.startswith("    ") or (block and not line.strip()):
            block.append(line)
        elif block:
            blocks.append(textwrap.dedent("\n".join(block)))
            block = []
    found = [block for block in blocks if word in block]
    assert len(found) == 1, "%d blocks of %s with %s" % (len(found), section, word)
    return found[0]
