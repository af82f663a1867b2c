"""Settings: places, names and secrets, from the environment or the caller."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrula_runtime.core.errors import ConfigurationError
from pyrula_runtime.settings import SETTINGS, Settings

HOME = {"HOME": "/home/ada"}


def test_an_empty_environment_means_the_embedded_store_and_no_probes() -> None:
    settings = Settings.from_env(HOME)
    assert settings == Settings(state_home=Path("/home/ada/.local/state"))
    assert settings.store_url_or() == "sqlite:////home/ada/.local/state/pyrula/pyrula.db"
    assert settings.health_port is None
    assert settings.health_host == "127.0.0.1"
    assert settings.cloud_drain_deadline_s == 5
    assert settings.unserved_warnings() == ()


def test_every_variable_has_its_published_name() -> None:
    assert [each.env for each in SETTINGS] == [
        "XDG_STATE_HOME",
        "PYRULA_STORE_URL",
        "PYRULA_VALKEY_NAMESPACE",
        "PYRULA_POSTGRES_DSN",
        "PYRULA_WORKER_HEALTH_PORT",
        "PYRULA_WORKER_HEALTH_HOST",
        "PYRULA_WORKER_ID",
        "PYRULA_RUNTIME_NAME",
        "PYRULA_CLOUD_API_KEY",
        "PYRULA_CLOUD_DRAIN_DEADLINE_S",
    ]


def test_variables_are_read_and_the_caller_wins() -> None:
    environ = {"XDG_STATE_HOME": "/var/lib/pyrula", "PYRULA_WORKER_HEALTH_PORT": "8081", "PYRULA_WORKER_ID": "pod-7"}
    settings = Settings.from_env(environ, health_port=0, worker_id=None)
    assert settings == Settings(state_home=Path("/var/lib/pyrula"), health_port=0, worker_id="pod-7")


@pytest.mark.parametrize(
    ("store_url", "default", "expected"),
    [
        ("valkey://a", "sqlite:////b.db", "valkey://a"),
        (None, "sqlite:////b.db", "sqlite:////b.db"),
        (None, None, "sqlite:////state/pyrula/pyrula.db"),
    ],
)
def test_the_store_is_the_one_set_else_the_callers_default_else_embedded(
    store_url: str | None, default: str | None, expected: str
) -> None:
    assert Settings(state_home=Path("/state"), store_url=store_url).store_url_or(default) == expected


def test_all_faults_are_told_together() -> None:
    environ = {"XDG_STATE_HOME": "state", "PYRULA_WORKER_HEALTH_PORT": "x", "PYRULA_CLOUD_DRAIN_DEADLINE_S": "nan"}
    with pytest.raises(ConfigurationError) as caught:
        Settings.from_env(environ, worker_id=" ")
    assert caught.value.faults == (
        "state_home (XDG_STATE_HOME) is 'state', but must be an absolute path",
        "health_port (--health-port, PYRULA_WORKER_HEALTH_PORT) is 'x', but must be a whole number from 0 to 65535",
        "worker_id (--worker-id, PYRULA_WORKER_ID) is ' ', but must be text that is not empty",
        "cloud_drain_deadline_s (PYRULA_CLOUD_DRAIN_DEADLINE_S) is nan, but must be a number from 0 to 3600 s",
    )


def test_a_setting_that_is_not_served_is_warned_about_by_name() -> None:
    environ = {**HOME, "PYRULA_POSTGRES_DSN": "postgres://u:secret@h/d", "PYRULA_CLOUD_API_KEY": "secret"}
    archive, cloud = Settings.from_env(environ).unserved_warnings()
    assert archive.startswith("PYRULA_POSTGRES_DSN is set, but")
    assert cloud.startswith("PYRULA_CLOUD_API_KEY is set, but")


def test_secrets_have_no_flag_and_do_not_show() -> None:
    settings = Settings(
        state_home=Path("/state"), store_url="redis://u:secret@h", postgres_dsn="secret", cloud_api_key="secret"
    )
    assert "secret" not in repr(settings) + " ".join(settings.unserved_warnings())
    assert [each.flag for each in SETTINGS if each.key in ("postgres_dsn", "cloud_api_key")] == ["", ""]


def test_the_namespace_goes_where_the_url_goes() -> None:
    settings = Settings(state_home=Path("/state"), store_url="valkey://here", valkey_namespace="staging")
    assert settings.store_url_or() == "valkey://here?namespace=staging"
    assert settings.store_url_or("sqlite:////a.db") == "valkey://here?namespace=staging"
    own = Settings(state_home=Path("/state"), store_url="valkey://here?namespace=mine", valkey_namespace="staging")
    assert own.store_url_or() == "valkey://here?namespace=mine"
    others = Settings(state_home=Path("/state"), store_url="unix:///s?db=1", valkey_namespace="staging")
    assert others.store_url_or() == "unix:///s?db=1&namespace=staging"
    embedded = Settings(state_home=Path("/state"), valkey_namespace="staging")
    assert embedded.store_url_or() == "sqlite:////state/pyrula/pyrula.db"
