"""Packaging of the Echelon testbed; tool settings live in pyproject.toml."""

from pathlib import Path

from setuptools import find_packages, setup

PACKAGES = ["echelonflow", "simulator", "controller", "traffic", "testbed", "results", "echelon", "experiments"]

EXTRAS = {
    # Real packets. mnexec, Open vSwitch and tcpdump come from the distribution (scripts/setup.sh);
    # ryu 4.34 only builds with setuptools < 68 (scripts/build-constraints.txt). mininet and ryu
    # import setuptools' distutils and pkg_resources at run time on Python >= 3.12.
    "emulation": ["mininet>=2.3.0.dev6", "ryu==4.34", "eventlet>=0.36", "scapy>=2.5", "setuptools<81"],
    "os-ken": ["os-ken>=4.2,<5", "eventlet>=0.36"],
    "profile": ["torch>=2.2", "transformers>=4.48"],
    "tune": ["scikit-learn>=1.4", "optuna>=4"],
    "sweep": ["pyarrow>=15", "distributed>=2024.5"],
    "fast": ['numba>=0.60; python_version < "3.14"'],
    "dev": [
        "pytest>=8",
        "pytest-timeout>=2.3",
        "pytest-xdist[psutil]>=3.5",
        "hypothesis>=6.100",
        "ruff>=0.6",
        "mypy>=1.11",
        "types-tabulate>=0.9",
        "types-psutil",
        "import-linter>=2.0",
        "prometheus-client>=0.20",
        "schemathesis>=4",
        "pip-audit>=2.7",
        "nbclient>=0.10",
        "nbformat>=5.10",
        "ipykernel>=6.29",
        "pandas>=2.2",
        "playwright>=1.50",
        "scapy>=2.5",
    ],
}

setup(
    name="echelon-testbed",
    version="0.1.0",
    description="EchelonFlow network scheduling for distributed training, emulated and simulated",
    long_description=Path("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=find_packages(include=[name for package in PACKAGES for name in (package, f"{package}.*")]),
    package_data={
        **{package: ["py.typed"] for package in PACKAGES},
        "experiments": ["py.typed", "*.yaml", "paradigms/*.yaml", "traces/*"],
        "echelonflow.model": ["topologies/*.csv"],
        "traffic.workloads": ["profiles/*.json"],
        "results.report": ["templates/*.j2", "static/*", "static/echarts/*"],
        "echelon.live": ["page/*"],
    },
    install_requires=[
        "numpy>=1.24",
        "msgspec>=0.18",
        "scipy>=1.10",
        "typer>=0.12",
        "rich>=13.7",
        "tabulate>=0.9",
        "pydantic>=2.7",
        "ruamel.yaml>=0.18",
        "matplotlib>=3.7",
        "jinja2>=3.1",
        "msgspec>=0.18",
        "psutil>=5.9",
    ],
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["echelon=echelon.cli.main:main"]},
)
