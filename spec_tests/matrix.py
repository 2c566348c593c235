"""Run the suite on the implementations that it knows, and write what came of it as RESULTS.md.

    python spec_tests/matrix.py [NAME ...]

Each implementation gets an environment of its own in `.matrix/`, made once. The old ones need
Python 3.8 (`PYTHON38` names it, `python3.8` by default) and `uv`, since pip does not finish
resolving them; the others need Python 3.11 (`PYTHON311`).
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = {"3.8": os.environ.get("PYTHON38", "python3.8"),
           "3.11": os.environ.get("PYTHON311", "python3.11")}
OLD = ["setuptools<60", "numpy<1.24", "six", "tensorboard<2.12", "protobuf<3.21"]
TESTS = ["pytest", "pytest-xdist"]

# name: Python, module, packages, more packages once torch is there
ENVIRONMENTS = {
    "minilightning": ("3.11", "minilightning", ["torch==2.13.0"], ["tqdm", "tensorboard"]),
    "lightning-2.6.6": ("3.11", "lightning.pytorch", ["torch==2.13.0"],
                        ["lightning==2.6.6", "tensorboard"]),
    "lightning-2.2.5": ("3.11", "lightning.pytorch", ["torch==2.13.0"],
                        ["lightning==2.2.5", "numpy<2", "setuptools<80", "tensorboard"]),
    "pytorch-lightning-1.5.10": ("3.8", "pytorch_lightning", ["torch==1.10.2"],
                                 ["pytorch-lightning==1.5.10", "torchmetrics<0.8", *OLD]),
    "pytorch-lightning-1.1.8": ("3.8", "pytorch_lightning", ["torch==1.7.1"],
                                ["pytorch-lightning==1.1.8", *OLD]),
}


def environment(name):
    """Return the interpreter of an environment, which is made if it is not there yet."""
    version, _, torch, more = ENVIRONMENTS[name]
    folder = ROOT / ".matrix" / name
    python, made = folder / "bin" / "python", folder / "made"
    if made.exists():
        return python
    subprocess.run([PYTHONS[version], "-m", "venv", str(folder)], check=True)
    if version == "3.8":
        command = ["uv", "pip", "install", "-q", "--python", str(python)]
        subprocess.run([*command, *torch, *more, *TESTS], check=True)
    else:
        for packages in (torch, [*more, *TESTS]):
            subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
    made.touch()
    return python


def run(name):
    """Run the suite on one implementation; returns its report and the exit code."""
    python, module = environment(name), ENVIRONMENTS[name][1]
    report = ROOT / ".matrix" / (name + ".json")
    print("== %s" % name, flush=True)
    done = subprocess.run(
        [str(python), "-W", "ignore", "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider",
         "spec_tests/clauses", "spec_tests/test_scenarios.py", "--impl", module,
         "--report", str(report)],
        cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)})
    return str(report), done.returncode


def main(names):
    """Run them all; the exit code is 1 if anything is red."""
    if unknown := [name for name in names if name not in ENVIRONMENTS]:
        print("unknown: %s; known are %s" % (unknown[0], " ".join(ENVIRONMENTS)))
        return 2
    outcomes = [run(name) for name in names or ENVIRONMENTS]
    sys.path.insert(0, str(ROOT))
    from spec_tests import report

    page = report.markdown(report.read([file for file, _ in outcomes]))
    (ROOT / "spec_tests" / "RESULTS.md").write_text(page, encoding="utf-8")
    print("wrote spec_tests/RESULTS.md")
    return int(any(code for _, code in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
