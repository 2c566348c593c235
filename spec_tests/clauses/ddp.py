"""Several processes: what runs where, and what all of them agree on."""

from ..clause import clause


@clause("DDP-001", "setup MUST be called on every process.", editions="1.1 1.5 2.2", needs="fit",
        source="seed 2.2 setup", device="ddp", hooks="CM.setup fires")
def ddp_001(run):
    t = run.fit()
    t.only("C.setup(fit) M.setup(fit)")
    t.equal("processes with a setup", run.ranks(t.count("M.setup")), [1, 1])
