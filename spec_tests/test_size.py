"""The size gate counts what it says it counts, and fails over each of its limits."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().with_name("size.py")

FINE = '''"""A docstring of many words, which is no code."""
name = f"{1 + 2} and {name!r}"  # name, =, and one string


def f(x):
    """Words."""
    return x
'''


def gate(folder, name, text):
    (folder / name).write_text(text, "utf-8")
    run = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder)], stdout=subprocess.PIPE, universal_newlines=True
    )
    return run.returncode, run.stdout


def test_tokens_per_line_leaves_docstrings_out_and_takes_an_f_string_as_one(tmp_path):
    code, out = gate(tmp_path, "trainer.py", FINE)
    # name = "": 3. def f ( x ) : 6. return x: 2. Eleven tokens on three lines.
    name, lines, _, tokens, longest = out.splitlines()[1].split()
    assert [name, lines, tokens, longest] == ["trainer", "7", "3.67", "1"]
    assert code == 0


@pytest.mark.parametrize(
    "name, text, complaint",
    [
        ("dispatch.py", "x = 1\n" * 271, "dispatch: 271 lines, 270 at most"),
        ("trainer.py", "x = '%s'\n" % ("y" * 95), "trainer.py:1 is 101 columns wide, 100 at most"),
        ("trainer.py", "x = 1 + 2 + 3 + 4\n", "mean: 9.00 tokens per line, 8.5 at most"),
        ("trainer.py", "x = 1 + 2 + 3 + 4 + 5 + 6\n",
         "trainer.py: 13.00 tokens per line, 11.0 at most"),
        ("trainer.py", "def f():\n" + "    x\n" * 61, "trainer.py: f() has 61 lines, 60 at most"),
        ("plugins.py", "x = 1\n", "plugins.py has no budget: give it a row in BUDGETS"),
    ],
)
def test_each_limit_fails_and_says_where(tmp_path, name, text, complaint):
    code, out = gate(tmp_path, name, text)
    assert code == 1
    assert "over budget: " + complaint in out.splitlines()
