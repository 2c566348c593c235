"""What hooks do in clauses of several areas, and what is then looked at."""

import os
import signal


def keep(self, batch, batch_idx):
    """Note the very batch, and return its sum."""
    self.note("batches", batch)
    return batch.sum() * 3


def of_start(self, batch, batch_idx, dataloader_idx=0):
    """Note the very batch."""
    self.note("batches", batch)


def of_end(self, outputs, batch, batch_idx, dataloader_idx=0):
    """Note the very batch, and the outputs."""
    self.note("batches", batch)
    self.note("outputs", outputs.item())


def one_batch(t):
    """The step and the two hooks around it MUST have been given one batch."""
    batches = t.noted("batches")
    t.equal("one batch, given three times", [each is batches[0] for each in batches], [True] * 3)


def stays(self):
    """Leave the mode as it is, and return something."""
    return -1


def sigterm(self, *args):
    """Be told to end by SIGTERM, at the second call, by a scheduler or a spot machine."""
    self.calls = getattr(self, "calls", 0) + 1
    if self.calls == 2:
        if not callable(signal.getsignal(signal.SIGTERM)):
            raise RuntimeError("nobody notices SIGTERM: it would end the process")
        os.kill(os.getpid(), signal.SIGTERM)
