"""The demo of tutorials/ in small: its text, its yardstick, its model, and a resumed run."""

import importlib.util
import math
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

PATH = Path(__file__).resolve().parent.parent / "tutorials" / "char_lm.py"


@pytest.fixture(scope="module")
def demo():
    spec = importlib.util.spec_from_file_location("char_lm", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def docs(demo):
    return demo.standard_library_docstrings()


def test_the_text_comes_from_the_library_itself(docs):
    import textwrap

    assert textwrap.dedent.__doc__.splitlines()[0] in {doc.splitlines()[0] for doc in docs}
    assert len(docs) == len(set(docs)) > 1000
    assert sum(map(len, docs)) > 300_000


def test_windows_cover_the_text_and_share_one_character(demo):
    text = "".join(map(chr, range(32, 127))) * 4
    rows = demo.windows([text])
    assert rows.shape[1] == demo.CONTEXT + 1
    assert rows[0, -1] == rows[1, 0]
    assert demo.decode(torch.cat([rows[0], rows[1, 1:]])) == text[: 2 * demo.CONTEXT + 1]
    assert demo.decode(demo.encode("a\u00e9\nb\t")) == "a?\nb?"


def test_bigram_loss_is_the_loss_of_counted_pairs(demo):
    # In "ababab..." b follows a always: (n + 1) of (n + 96) counts, with one added to each pair.
    train = demo.encode("ab" * 200)[:401][None]
    val = demo.encode("ab")[None]
    n = 200
    assert demo.bigram_loss(train, val) == pytest.approx(-math.log((n + 1) / (n + 96)), rel=1e-5)


def test_the_model_sees_the_last_31_characters_and_no_later_one(demo):
    torch.manual_seed(0)
    model = demo.CharLM(channels=8)
    x = torch.randint(0, len(demo.ALPHABET), (1, 64))
    with torch.no_grad():
        before = model(x)
        for changed, affected in ((40, range(40, 64)), (0, range(0, 31))):
            y = x.clone()
            y[0, changed] = (y[0, changed] + 1) % len(demo.ALPHABET)
            differs = (model(y) != before).any(dim=2)[0].nonzero().flatten().tolist()
            assert set(differs) <= set(affected) and changed in differs


@pytest.mark.filterwarnings("ignore:.* is not empty")
def test_a_second_run_resumes_from_the_checkpoint(demo, docs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "STEPS", 3)
    rows = demo.windows(docs[:60])
    train, val = demo.DataLoader(rows[40:], 8), demo.DataLoader(rows[:40], 8)

    first = demo.make_trainer(2, 9.0, tmp_path)
    first.fit(demo.CharLM(channels=8), train, val)
    path = first.checkpoint_callback.best_model_path
    assert Path(path).is_file()
    second = demo.make_trainer(4, 9.0, tmp_path)
    second.fit(demo.CharLM(channels=8), train, val, ckpt_path=path)

    assert (first.global_step, second.global_step) == (6, 12)
    out = capsys.readouterr().out
    assert [out.count("epoch %d, step %d:" % (n, 3 * n + 3)) for n in range(4)] == [1, 1, 1, 1]
    assert demo.CharLM.load_from_checkpoint(path).eval().write("Return ", 5).startswith("Return ")
