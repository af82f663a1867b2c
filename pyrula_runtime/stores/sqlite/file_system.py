"""Refusing disks on which SQLite's locks or its shared memory do not work.

WAL needs memory shared by all writers and record locks that are true. Network file systems and FUSE have neither for
certain (a virtiofs mount was seen to corrupt a database within a minute), and they fail silently. So the kernel's name
for the file system must be on the list of those known to be good; what is on no list is refused too, with its number.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from pyrula_runtime.core.errors import StoreRefused

_GOOD = {
    0xEF53: "ext",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0x2FC12FC1: "zfs",
    0xF2F52010: "f2fs",
    0xCA451A4E: "bcachefs",
}
_GOOD_BUT = {
    0x01021994: ("tmpfs", "it is memory: runs are gone when the host goes down"),
    0x794C7630: ("overlayfs", "it is one container's own layer: runs are gone with the container; mount a volume"),
}
_BAD = {
    0x6969: "NFS",
    0x6E667364: "NFSD",
    0x517B: "SMB",
    0xFF534D42: "CIFS",
    0xFE534D42: "SMB2",
    0x65735546: "FUSE (virtiofs, sshfs, gcsfuse, glusterfs and the like)",
    0x01021997: "9p",
    0x00C36400: "Ceph",
    0x5346414F: "AFS",
    0x6B414653: "kAFS",
    0x73757245: "Coda",
    0x0BD00BD0: "Lustre",
    0x47504653: "GPFS",
    0x01161970: "GFS2",
    0x7461636F: "OCFS2",
    0x19830326: "BeeGFS",
    0xAAD7AAEA: "PanFS",
    0x013111A8: "IBRIX",
    0x61636673: "ACFS",
    0xBEEFDEAD: "SNFS",
    0xA501FCF5: "VxFS",
    0x564C: "NCP",
    0x786F4256: "VirtualBox shared folder",
    0xBACBACBC: "VMware shared folder",
    0x7C7C6673: "Parallels shared folder",
    0x53464846: "WSL's Windows drive",
}


def check(path: Path) -> str | None:
    """Refuse `path` (StoreRefused), or accept it, perhaps with a warning. It must exist; it is not opened."""
    kind = _kind(path)
    if kind is None:
        return f"store {path}: this system does not tell file systems apart; make sure that it is a local disk"
    return judge(kind, path)


def judge(kind: int, path: Path) -> str | None:
    """What to make of the kernel's number for a file system."""
    if kind in _GOOD:
        return None
    if kind in _GOOD_BUT:
        name, but = _GOOD_BUT[kind]
        return f"store {path} is on {name}: {but}"
    if kind in _BAD:
        why = f"{_BAD[kind]}, where several processes cannot write to an SQLite file safely"
    else:
        why = f"a file system of type 0x{kind:X}, which is not known to be safe for an SQLite file"
    raise StoreRefused(f"store {path} is on {why}; put it on a local disk (ext4, xfs, btrfs, zfs)")


def _kind(path: Path) -> int | None:
    """`f_type` of statfs(2), None where it is not to be had."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    answer = ctypes.create_string_buffer(256)  # struct statfs has 120 bytes at most; f_type, a long, is its first field
    if libc.statfs(os.fsencode(path), answer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
    return ctypes.c_long.from_buffer(answer).value & 0xFFFFFFFF
