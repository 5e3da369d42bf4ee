"""The documented configuration for hubs, loaded as a hub loads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jupyterhub.app import JupyterHub
from jupyterhub.spawner import Spawner
from traitlets.config import Config, PyFileConfigLoader

from tests.test_docs import VALUES, fenced

OWN = [example for example in fenced("python") if "c.JupyterHub." in example]
HANDED_ON = [values["hub"]["config"] for values in VALUES if "hub" in values]


def check(config: Config) -> None:
    """Every trait exists, and accepts its value."""
    hub = JupyterHub(config=config)
    assert set(config.JupyterHub) <= set(JupyterHub.class_traits(config=True))
    assert {"students", "teachers"} <= hub.load_groups.keys()
    spawner = Config(Spawner={**config.Spawner, **config.KubeSpawner})
    assert set(spawner.Spawner) <= set(Spawner.class_traits(config=True))
    assert Spawner(config=spawner).disable_user_config
    JupyterHub.clear_instance()


@pytest.mark.parametrize("example", OWN)
def test_every_configuration_of_a_hub_can_be_used(example: str, tmp_path: Path) -> None:
    (tmp_path / "jupyterhub_config.py").write_text(example)
    check(PyFileConfigLoader("jupyterhub_config.py", path=str(tmp_path)).load_config())


@pytest.mark.parametrize("sections", HANDED_ON)
def test_what_the_chart_hands_on_to_the_hub_can_be_used(sections: dict[str, Any]) -> None:
    check(Config(sections))


def test_there_is_one_of_each() -> None:
    assert (len(OWN), len(HANDED_ON)) == (1, 1)
