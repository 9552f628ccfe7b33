"""Expected findings for each damaged copy of the sound partition (`corrupted-*`)."""

from __future__ import annotations

#: Without a manifest, so that both checkpoints may have been copied after the log.
MISSING_TAIL = {"HWM-CP-ABOVE-LEO", "HWM-RP-ABOVE-LEO"}
FILE_CORRUPT = ("LATENT_CORRUPTION", {"EPO-FILE-CORRUPT"})
MALFORMED = ("INCONCLUSIVE", {"CHK-MALFORMED"})
BAD_CHECKSUM = ("LATENT_CORRUPTION", {"DIV-CORRUPT", "LOG-CORRUPT-MID"})
HARMLESS = ("CONSISTENT", set())
#: Damage → verdict and exactly the codes of `low` or more, as truth.json describes the edit and part F defines the codes.
DAMAGE = {
    "all-empty": ("INCONCLUSIVE", {"CAP-UNREADABLE", "CAP-MISSING-SEGMENT", *MISSING_TAIL}),
    "batch-baseoffset-changed": (
        "LATENT_CORRUPTION",
        {"LOG-CRC-BLIND", "LOG-GAP", "LOG-OFFSET-DUPLICATE", "LOG-OFFSET-REGRESSION"},
    ),
    "batch-codec-7": ("LATENT_CORRUPTION", {"DIV-CORRUPT", "LOG-CORRUPT-MID", "LOG-FIELD"}),
    "batch-count-huge": ("LATENT_CORRUPTION", {"DIV-CORRUPT", "LOG-CORRUPT-MID", "LOG-FIELD"}),
    "batch-duplicated": ("LATENT_CORRUPTION", {"LOG-OFFSET-DUPLICATE"}),
    "batch-epoch-changed": ("LATENT_CORRUPTION", {"LOG-CRC-BLIND", "LOG-EPOCH-REGRESSION"}),
    "batch-length-huge": ("LATENT_CORRUPTION", {"LOG-CORRUPT-MID"}),
    "batch-length-negative": ("LATENT_CORRUPTION", {"LOG-CORRUPT-MID"}),
    "batch-length-off-by-one": ("LATENT_CORRUPTION", {"LOG-CORRUPT-MID"}),
    "batch-magic-9": ("LATENT_CORRUPTION", {"LOG-CRC-BLIND", "LOG-FIELD"}),
    "batch-missing": ("COMMITTED_DIVERGENCE", {"DIV-HIDDEN", "LOG-GAP", "TRN-REPLAY-GAP"}),
    "epoch-beyond-log-end": HARMLESS,
    "epoch-count-too-large": FILE_CORRUPT,
    "epoch-count-too-small": FILE_CORRUPT,
    "epoch-crlf": HARMLESS,
    "epoch-decreasing": ("LATENT_CORRUPTION", {"EPO-CACHE-MISSING", "EPO-NON-MONOTONIC"}),
    "epoch-disagrees": ("LATENT_CORRUPTION", {"EPO-CACHE-MISSING"}),
    "epoch-empty": ("INCONCLUSIVE", {"EPO-FILE-CORRUPT"}),
    "epoch-garbage": FILE_CORRUPT,
    "epoch-huge-numbers": FILE_CORRUPT,
    "epoch-missing": ("LATENT_CORRUPTION", {"EPO-CACHE-MISSING"}),
    "epoch-negative": FILE_CORRUPT,
    "epoch-no-final-newline": HARMLESS,
    "epoch-offsets-decreasing": ("LATENT_CORRUPTION", {"EPO-CACHE-MISSING", "EPO-NON-MONOTONIC"}),
    "epoch-version-1": FILE_CORRUPT,
    "epoch-words": FILE_CORRUPT,
    "flip-crc": BAD_CHECKSUM,
    "flip-payload": BAD_CHECKSUM,
    "hw-beyond-log-end": ("INCONCLUSIVE", {"HWM-CP-ABOVE-LEO"}),
    "hw-count-wrong": MALFORMED,
    "hw-empty": ("CONSISTENT", {"CHK-MISSING"}),
    "hw-garbage": MALFORMED,
    "hw-missing": ("CONSISTENT", {"CHK-MISSING"}),
    "hw-negative": MALFORMED,
    "hw-no-entry": ("CONSISTENT", {"CHK-MISSING"}),
    "hw-version-3": MALFORMED,
    "hw-word": MALFORMED,
    "index-garbage": HARMLESS,
    "index-missing": HARMLESS,
    "index-odd-size": HARMLESS,
    "last-log-empty": ("INCONCLUSIVE", MISSING_TAIL),
    "middle-zeros": ("LATENT_CORRUPTION", {"LOG-CORRUPT-MID"}),
    "odd-dirs": HARMLESS,
    "same-broker-id": ("CONSISTENT", {"META-DUP-DIR"}),
    "segment-missing-first": ("INCONCLUSIVE", {"CAP-MISSING-SEGMENT"}),
    "segment-missing-middle": ("INCONCLUSIVE", {"CAP-MISSING-SEGMENT"}),
    "tail-garbage": ("LATENT_CORRUPTION", {"LOG-TAIL-GARBAGE"}),
    "tail-torn": ("INCONCLUSIVE", {"LOG-TAIL-PARTIAL", *MISSING_TAIL}),
    "tail-torn-5-bytes": ("INCONCLUSIVE", {"LOG-TAIL-PARTIAL", *MISSING_TAIL}),
    "tail-torn-in-header": ("INCONCLUSIVE", {"LOG-TAIL-PARTIAL", *MISSING_TAIL}),
    "tail-zeros": HARMLESS,
    "timeindex-missing": HARMLESS,
    "topic-id-differs": ("INCONCLUSIVE", {"META-TOPICID-MISMATCH"}),
    "topic-id-garbage": ("INCONCLUSIVE", {"CAP-UNREADABLE"}),
}
