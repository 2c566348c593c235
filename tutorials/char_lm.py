"""A character-level language model learns from the docstrings of Python's standard library.

Run `make demo`, or `python tutorials/char_lm.py`: about a minute on two cores, no download.
You will see
1. the text, and how well counting pairs of characters predicts it;
2. a network trained on it, until it predicts better than the counts;
3. the hooks that fired for the first training batch, in order;
4. text that the saved model writes;
5. a second run that resumes from the checkpoint and goes on.
"""

import ast
import sysconfig
import tempfile
import textwrap
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

import minilightning as ml
from minilightning.lifecycle import trace

ALPHABET = "\n" + "".join(map(chr, range(32, 127)))
CONTEXT = 64  # characters per training example
BATCH = 32  # examples per batch
STEPS = 160  # batches per epoch, of the 410 that the text has; drawn anew each time


def standard_library_docstrings() -> list[str]:
    """Read every docstring of the library's top-level modules from source; import none of them."""
    docs = {}  # keeps the order, and each text once
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                docs[ast.get_docstring(node) or ""] = None
    return [doc for doc in docs if doc]


def encode(text: str) -> torch.Tensor:
    """Turn text into places in ALPHABET; what is not there counts as a question mark."""
    places = {char: place for place, char in enumerate(ALPHABET)}
    return torch.tensor([places.get(char, places["?"]) for char in text])


def decode(places: torch.Tensor) -> str:
    return "".join(ALPHABET[place] for place in places.tolist())


def windows(docs: list[str]) -> torch.Tensor:
    """Cut the text into rows of CONTEXT + 1 characters; each begins with its forerunner's last."""
    return encode("\n\n".join(docs)).unfold(0, CONTEXT + 1, CONTEXT)


def bigram_loss(train: torch.Tensor, val: torch.Tensor) -> float:
    """Return the mean loss on `val`, in nats per character, of pair counts taken from `train`."""
    size = len(ALPHABET)
    pairs = train[:, :-1] * size + train[:, 1:]
    counts = torch.bincount(pairs.flatten(), minlength=size**2).view(size, size)
    scores = (counts + 1.0).log()  # + 1: a pair never seen is rare, not impossible
    return F.cross_entropy(scores[val[:, :-1]].flatten(0, 1), val[:, 1:].flatten()).item()


class CharLM(ml.LightningModule):
    """Causal convolutions: each character is predicted from the 31 before it."""

    def __init__(self, channels: int = 96, learning_rate: float = 3e-3):
        super().__init__()
        self.save_hyperparameters()  # into the checkpoint, which can then build the model
        self.embed = nn.Embedding(len(ALPHABET), channels)
        self.layers = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel_size=3, dilation=d) for d in (1, 2, 4, 8)
        )
        self.head = nn.Linear(channels, len(ALPHABET))

    def forward(self, x):
        """Map places (batch, time) to scores of the next character (batch, time, ALPHABET)."""
        x = self.embed(x).transpose(1, 2)
        for layer in self.layers:
            past = F.pad(x, (2 * layer.dilation[0], 0))  # pad on the left: no look ahead
            x = x + F.relu(layer(past))
        return self.head(x.transpose(1, 2))

    def loss(self, batch):
        scores = self(batch[:, :-1])
        return F.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.learning_rate)

    @torch.no_grad()
    def write(self, start: str, length: int) -> str:
        """Continue `start` by `length` characters, each drawn from the model's prediction."""
        text = encode(start)
        for _ in range(length):
            scores = self(text[None, -CONTEXT:])[0, -1]
            probabilities = torch.softmax(scores / 0.7, dim=0)  # below 1: bolder than it is sure
            text = torch.cat([text, torch.multinomial(probabilities, 1)])
        return decode(text)


class CompareWithBigram(ml.Callback):
    """After each epoch, print the validation loss next to the one to beat."""

    def __init__(self, bigram: float):
        self.bigram = bigram

    def on_validation_end(self, trainer, pl_module):
        if not trainer.sanity_checking:
            loss = trainer.callback_metrics["val_loss"].item()
            where = f"epoch {trainer.current_epoch}, step {trainer.global_step}"
            pl_module.print(f"{where}: validation loss {loss:.3f}, bigram {self.bigram:.3f}")


def headline(text: str) -> None:
    print(f"\n== {text} ==\n")


def make_trainer(max_epochs: int, bigram: float, folder: Path) -> ml.Trainer:
    checkpoint = ml.callbacks.ModelCheckpoint(
        dirpath=folder, filename="{epoch}-{val_loss:.3f}", monitor="val_loss"
    )
    return ml.Trainer(
        max_epochs=max_epochs,
        limit_train_batches=STEPS,
        callbacks=[CompareWithBigram(bigram), checkpoint],
        accelerator="cpu",
        logger=False,
    )


def main() -> None:
    ml.seed_everything(1)
    torch.set_num_threads(1)  # the same numbers whatever the cores, and no waiting for busy ones

    headline("1. The text")
    docs = standard_library_docstrings()
    train, val = windows([d for i, d in enumerate(docs) if i % 20]), windows(docs[::20])
    bigram = bigram_loss(train, val)
    print(f"{len(docs)} docstrings; one in twenty is held out for validation")
    print(f"{train[:, 1:].numel()} characters to train on, {val[:, 1:].numel()} to validate on")
    print(f"counting pairs of characters predicts with a loss of {bigram:.3f} nats per character")
    train_loader = DataLoader(train, BATCH, shuffle=True, drop_last=True)
    val_loader = DataLoader(val, BATCH)

    headline("2. Train for four epochs")
    folder = Path(tempfile.mkdtemp(prefix="char_lm_"))
    trainer = make_trainer(4, bigram, folder)
    with trace(trainer) as run:
        trainer.fit(CharLM(), train_loader, val_loader)
    first = trainer.callback_metrics["val_loss"].item()

    headline("3. The hooks of the first training batch")
    run.print(first_batch=True, verbose=True)

    headline("4. The checkpoint, and what the saved model writes")
    path = trainer.checkpoint_callback.best_model_path
    print(f"{path} ({Path(path).stat().st_size // 1024} KiB)\n")
    text = CharLM.load_from_checkpoint(path).eval().write("Return the ", 400)
    for line in text.splitlines():
        print(textwrap.fill(line, width=80))

    headline("5. Resume from the checkpoint, for epochs 4 and 5")
    warnings.filterwarnings("ignore", ".* is not empty")  # it holds the first run's checkpoint
    trainer = make_trainer(6, bigram, folder)
    trainer.fit(CharLM(), train_loader, val_loader, ckpt_path=path)
    last = trainer.callback_metrics["val_loss"].item()

    headline("Result")
    print(f"validation loss: bigram {bigram:.3f}, 4 epochs {first:.3f}, 6 epochs {last:.3f}")
    assert last < first < 0.8 * bigram, "the network should beat the counts clearly"
    assert trainer.global_step == 6 * STEPS, "the second run should go on where the first ended"


if __name__ == "__main__":
    main()
