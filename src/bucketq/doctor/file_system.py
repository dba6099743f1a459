"""File systems: whether a file is on a network, where the locks of other machines may not be seen."""

import os
import re
from pathlib import Path

from bucketq.doctor.finding import Finding, Level

_MOUNTS = Path("/proc/self/mountinfo")
_OF_NETWORKS = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|9p|afs|ceph|glusterfs|lustre|beegfs|gpfs|ocfs2|gfs2|fuse\.(sshfs|s3fs|rclone"
    r"|gcsfuse|blobfuse2?|goofys|juicefs|mount-s3|glusterfs|ceph.*)|virtiofs"
)
_ESCAPED = re.compile(r"\\([0-7]{3})")


def check_file_system(path: Path, mounts: Path = _MOUNTS) -> Finding | None:
    """Tell what kind of file system a path is on; None where the operating system does not say so."""
    try:
        lines = os.fsdecode(mounts.read_bytes()).split("\n")
    except OSError:
        return None
    kind = _kind_of(path, lines)
    if kind is None:
        return None
    if _OF_NETWORKS.fullmatch(kind):
        return Finding(
            "file system",
            Level.WARNING,
            f"{path} is on a network file system ({kind}), where other machines' locks may not count",
            "Put the file on a local disk, for one machine; for several, a bucket or a broker.",
        )
    return Finding("file system", Level.OK, f"{path} is on a local file system ({kind})")


def _kind_of(path: Path, lines: list[str]) -> str | None:
    """The kind of the innermost mount that holds a path; of several at one place the last one counts."""
    best, kind = "", None
    for line in lines:
        left, _, right = line.partition(" - ")
        # Blanks in a mount's place are written as \040.
        place = _ESCAPED.sub(_unescaped, left.split(" ")[4]) if left.count(" ") >= 4 else ""
        holds = os.path.commonpath([place, path]) == place if place.startswith("/") else False
        if holds and len(place) >= len(best):
            best, kind = place, right.split()[0] if right.split() else None
    return kind


def _unescaped(escaped: re.Match[str]) -> str:
    return chr(int(escaped[1], 8))
