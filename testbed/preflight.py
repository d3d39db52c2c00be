"""Can this machine emulate? Independent checks, each with its remedy; and the facts that a manifest records."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echelonflow.errors import InputError, RunError
from testbed import openvswitch, queues

SETUP = "run scripts/setup.sh"
PROGRAMS = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    "ip": "iproute2",
    "tc": "iproute2",
    "ethtool": "ethtool",
    "tcpdump": "tcpdump",
    "mnexec": "mininet",
    "ifconfig": "net-tools",
    "ovs-vswitchd": "openvswitch-switch",
    "ovsdb-server": "openvswitch-switch",
    "ovsdb-tool": "openvswitch-common",
    "ovs-vsctl": "openvswitch-switch",
}
_NAMESPACES = ["unshare", "--net", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
TRIES = 3
_QDISCS = ("htb", "bfifo", "tbf", "prio", "fq", "fq_codel", "sfq", "netem", "ingress")


@dataclass(frozen=True)
class Check:
    """One thing that emulation needs: whether it is there, what was found, and what to do where it is not."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


def _in_namespace(script: str) -> subprocess.CompletedProcess[str]:
    """Run shell lines in a throw-away network of their own; what is killed says nothing of the machine, and is run again.

    Raises RunError if it is killed every time.
    """
    for _ in range(TRIES):
        done = subprocess.run([*_NAMESPACES, "sh", "-e"], input=script, capture_output=True, text=True, check=False)
        if done.returncode >= 0:
            return done
    raise RunError(
        f"what looks at this machine was killed {TRIES} times (signal {-done.returncode}); see who ends processes "
        "here (the kernel, for want of memory: dmesg), and start again"
    )


def _root() -> Check:
    return Check("root", os.geteuid() == 0, f"user id {os.geteuid()}", "run as root, e.g. with sudo")


def _programs() -> Check:
    missing = {name: package for name, package in PROGRAMS.items() if shutil.which(name) is None}
    packages = " ".join(sorted(set(missing.values())))
    detail = f"missing: {', '.join(missing)}" if missing else f"all {len(PROGRAMS)} found"
    return Check("programs", not missing, detail, f"{SETUP}, or install the packages {packages}")


def _schema() -> Check:
    path = openvswitch.SCHEMA
    return Check("Open vSwitch schema", path.exists(), str(path), f"{SETUP}, or install openvswitch-common")


def _mininet() -> Check:
    there = importlib.util.find_spec("mininet") is not None
    # Mininet 2.3 imports distutils, which left Python with 3.12 and lives on in setuptools.
    distutils = importlib.util.find_spec("distutils") is not None or importlib.util.find_spec("setuptools") is not None
    detail = "importable" if there and distutils else "not importable" if not there else "needs setuptools"
    return Check("mininet", there and distutils, detail, f"{SETUP}, or pip install '.[emulation]'")


def _tunnel_device() -> Check:
    path = Path("/dev/net/tun")
    ok = path.exists() or openvswitch.kernel_datapath_there()
    return Check(
        "tun device", ok, str(path), "load the kernel module tun (modprobe tun), which userspace switches need"
    )


def _namespaces() -> Check:
    if shutil.which("unshare") is None:
        return Check("namespaces", ok=False, detail="no unshare", remedy=f"{SETUP}, or install util-linux")
    done = _in_namespace("exit 0\n")
    remedy = "allow network, mount and process namespaces (in a container: run it privileged)"
    return Check("namespaces", done.returncode == 0, done.stderr.strip() or "usable", remedy)


def _queues() -> Check:
    remedy = "use a kernel with CONFIG_NET_SCH_HTB, CONFIG_NET_CLS_U32 and CONFIG_VETH (modprobe sch_htb cls_u32 veth)"
    if shutil.which("tc") is None or shutil.which("unshare") is None:
        return Check("queues", ok=False, detail="no tc or unshare to try them with", remedy=f"{SETUP}")
    lines = "\n".join(queues.tree_lines("probe0", 100e6, 1500, 1514))
    done = _in_namespace(f"ip link add probe0 type veth peer name probe1\ntc -batch - <<'.'\n{lines}\n.\n")
    detail = "HTB, bfifo and u32 work" if done.returncode == 0 else (done.stdout + done.stderr).strip()[:300]
    return Check("queues", done.returncode == 0, detail, remedy)


def checks() -> list[Check]:
    """All checks, none depending on another's success."""
    return [check() for check in (_root, _programs, _schema, _mininet, _tunnel_device, _namespaces, _queues)]


def require() -> None:
    """Raise InputError, once and with every remedy, if this machine cannot emulate."""
    failed = [check for check in checks() if not check.ok]
    if failed:
        # Without root most others fail as well, for that reason alone.
        first = [check for check in failed if check.name == "root"] or failed
        text = "; ".join(f"{check.name}: {check.detail}; {check.remedy}" for check in first)
        raise InputError(f"this machine cannot emulate: {text}; or simulate: --backend fluid")


def _words(path: str) -> list[str]:
    try:
        return Path(path).read_text().split()
    except OSError:
        return []


def _qdiscs_found() -> list[str]:
    lines = ["ip link add probe0 type veth peer name probe1"]
    lines += [
        f"if tc qdisc add dev probe0 {_qdisc_place(name)} 2>/dev/null; then echo {name}; "
        f"tc qdisc del dev probe0 {'ingress' if name == 'ingress' else 'root'}; fi"
        for name in _QDISCS
    ]
    return _in_namespace("\n".join(lines) + "\n").stdout.split()


def _qdisc_place(name: str) -> str:
    arguments = {"tbf": " rate 1mbit burst 3000 limit 3000", "bfifo": " limit 3000"}.get(name, "")
    return "ingress" if name == "ingress" else f"root {name}{arguments}"


def _mininet_version() -> str:
    try:
        return importlib.metadata.version("mininet")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def machine_facts() -> dict[str, Any]:
    """What a result depends on: kernel, processor count, versions, congestion controls and qdiscs of this machine."""
    return {
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu_count": os.cpu_count(),
        "openvswitch": openvswitch.version(),
        "openvswitch_kernel_datapath": openvswitch.kernel_datapath_there(),
        "mininet": _mininet_version(),
        "congestion_controls": _words("/proc/sys/net/ipv4/tcp_available_congestion_control"),
        "default_congestion_control": " ".join(_words("/proc/sys/net/ipv4/tcp_congestion_control")),
        "qdiscs": _qdiscs_found(),
    }
