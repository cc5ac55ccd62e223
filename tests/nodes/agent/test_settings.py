"""How an agent is set up: flags before the environment before its file, and what is refused with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.agent.inventory import Gpus, address_towards, inventory, model
from nodes.agent.settings import Declared, Mount, SettingsUnusable, read
from tests.system import ROOT

FILE = """
url = "https://gangway.example.com"
state = "/srv/agent"
executor = "docker"
pass_env = ["AWS_*"]

[node]
name = "gpu-17"
az = "az1"
rack = "r3"
gpus = 8

[[mounts]]
source = "/data"
target = "/data"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "agent.toml"
    path.write_text(FILE)
    return path


def test_a_file_says_it_all(file: Path) -> None:
    found = read(["--config", str(file)], {})
    assert (found.url, found.state, found.executor) == ("https://gangway.example.com", "/srv/agent", "docker")
    assert found.node == Declared(name="gpu-17", az="az1", rack="r3", gpus=8)
    assert found.mounts == (Mount("/data", "/data"),) and found.pass_env == ("AWS_*",)


def test_a_flag_goes_before_the_environment_and_that_before_the_file(file: Path) -> None:
    environ = {
        "GANGWAY_AGENT_CONFIG": str(file),
        "GANGWAY_AGENT_NODE_RACK": "r4",
        "GANGWAY_AGENT_NODE_GPUS": "4",
        "GANGWAY_AGENT_STATE": "/srv/other",
    }
    found = read(["--node-gpus", "2"], environ)
    assert (found.node.rack, found.node.gpus, found.state) == ("r4", 2, "/srv/other")


def test_a_join_token_comes_from_a_file_that_may_be_gone_later(file: Path, tmp_path: Path) -> None:
    environ = {"GANGWAY_AGENT_JOIN_TOKEN_FILE": str(tmp_path / "token")}
    assert read(["--config", str(file)], environ).joining == ""
    (tmp_path / "token").write_text("secret\n")
    assert read(["--config", str(file)], environ).joining == "secret"
    with pytest.raises(SystemExit):
        read(["--config", str(file), "--join-token", "secret"], {})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(('url = "https://gangway.example.com"', ""), "url: give the portal's address", id="no address"),
        pytest.param(('"docker"', '"lxc"'), "executor: 'lxc' is none of process, docker", id="an unknown executor"),
        pytest.param(("gpus = 8", 'gpus = "many"'), "node.gpus", id="a number in words"),
        pytest.param(("gpus = 8", "gpu = 8"), "unknown field `gpu`", id="a name that is none"),
        pytest.param(('rack = "r3"', ""), "node.rack: say where the host stands", id="no rack"),
        pytest.param(("executor", "executor ="), "agent.toml", id="no TOML"),
        pytest.param(("https:", "http:"), None, id="without TLS it is no worse off"),
        pytest.param(('executor = "docker"', 'ca_file = "/x"\nurl = "http://x"'), "agent.toml", id="a key twice"),
    ],
)
def test_what_is_refused_and_how(file: Path, change: tuple[str, str], words: str | None) -> None:
    file.write_text(FILE.replace(*change))
    if words is None:
        read(["--config", str(file)], {})
        return
    with pytest.raises(SettingsUnusable) as refused:
        read(["--config", str(file)], {})
    assert words in str(refused.value)


def test_the_example_is_one() -> None:
    found = read(["--config", str(ROOT / "examples" / "agent.toml")], {})
    assert (found.executor, found.node.rack, found.mounts) == ("docker", "r07", (Mount("/data", "/data"),))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsUnusable, match=r"cannot read .*none.toml"):
        read(["--config", str(tmp_path / "none.toml")], {})


# --- inventory


def test_the_host_says_what_is_not_declared(tmp_path: Path) -> None:
    gpus = Gpus("H100", ("GPU-1", "GPU-2"), nvlink=False)
    found = inventory(Declared(name="n", az="a", rack="r"), gpus, tmp_path, "http://127.0.0.1:1")
    assert (found.gpu_type, found.gpus, found.nvlink, found.address) == ("H100", 2, False, "127.0.0.1")
    assert found.cpus >= 1 and found.memory_gb >= 1 and found.scratch_gb >= 1


def test_what_is_declared_counts(tmp_path: Path) -> None:
    declared = Declared(name="n", az="a", rack="r", gpu_type="A100", gpus=4, cpus=3, memory_gb=5, scratch_gb=0)
    found = inventory(declared, Gpus("H100", ("GPU-1",), True), tmp_path, "http://127.0.0.1:1")
    assert (found.gpu_type, found.gpus, found.cpus, found.memory_gb, found.scratch_gb) == ("A100", 4, 3, 5, 0)


def test_a_host_without_gpus_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SettingsUnusable, match="declare them"):
        inventory(Declared(name="n", az="a", rack="r"), None, tmp_path, "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA L40S", "L40S"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla T4", "T4"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("Graphics Device", "Graphics-Device"),
    ],
)
def test_the_short_name_of_a_model(name: str, short: str) -> None:
    assert model(name) == short


def test_an_address_that_cannot_be_told_is_none() -> None:
    assert address_towards("http://no.such.host.invalid:1") == ""
