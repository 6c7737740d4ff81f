"""Settings that change while a process runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_trickle.config import Settings
from spark_trickle.errors import TrickleError
from spark_trickle.scheduler.reload import Reloader, change


class Lake:
    def __init__(self, folder: Path, text: str | None = "", **keywords: object) -> None:
        self.folder = folder
        self.file = folder / "trickle.toml"
        self.used: list[Settings] = []
        if text is not None:
            self.write(text)
        self.reloader = Reloader(Settings.load(folder, **keywords), self.used.append)

    def write(self, text: str) -> None:
        self.file.write_text(text, encoding="utf-8")

    def look(self, times: int = 2) -> Settings:
        for _ in range(times):
            self.reloader.look()
        return self.reloader.settings


def test_what_is_live_takes_effect_and_the_rest_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    lake = Lake(tmp_path, 'default_schedule = "1m"\n')
    assert lake.look() is lake.reloader.settings
    assert lake.used == []
    lake.write('default_schedule = "10s"\nmaster = "local[1]"\nmax_concurrent_refreshes = 7\n')
    found = lake.look()
    assert (found.default_schedule, found.max_concurrent_refreshes, found.master) == ("10s", 7, "local[*]")
    assert lake.used == [found]
    assert "settings changed: default_schedule = '10s', max_concurrent_refreshes = 7" in caplog.text
    assert "these settings take effect when the process starts again: master" in caplog.text
    lake.look(5)
    assert len(lake.used) == 1


def test_a_file_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    lake = Lake(tmp_path, 'webhooks = ["https://a.example/x"]\n')
    lake.write("")  # an editor empties it first
    lake.reloader.look()
    lake.write('webhooks = ["https://a.example/x", "https://b.example/y"]\n')
    lake.reloader.look()
    assert lake.used == []
    assert len(lake.look(1).webhooks) == 2


def test_a_wrong_file_changes_nothing_and_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = Lake(tmp_path, "max_consecutive_errors = 5\n")
    for text, why in (
        ("max_consecutive_errors = 0\n", "max_consecutive_errors"),
        ("max_consecutive_errors = \n", "is not TOML"),
        ("max_errors = 3\n", "Unknown setting 'max_errors'"),
    ):
        caplog.clear()
        lake.write(text)
        assert lake.look(4).max_consecutive_errors == 5
        (record,) = caplog.records
        assert "the settings stay as they are" in record.getMessage()
        assert why in record.getMessage()
    lake.write("max_consecutive_errors = 6\n")
    assert lake.look().max_consecutive_errors == 6
    assert len(lake.used) == 1


def test_a_file_that_is_gone_changes_nothing_and_one_that_comes_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = Lake(tmp_path, None)
    lake.look(3)
    lake.write("max_consecutive_errors = 5\n")
    assert lake.look().max_consecutive_errors == 5
    lake.file.unlink()
    assert lake.look(4).max_consecutive_errors == 5
    assert [r.getMessage() for r in caplog.records] == [f"the settings stay as they are: {lake.file} is gone"]
    lake.write("max_consecutive_errors = 4\n")
    assert lake.look().max_consecutive_errors == 4


def test_keywords_and_the_environment_stay_stronger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRICKLE_DEFAULT_SCHEDULE", "7s")
    lake = Lake(tmp_path, "", max_consecutive_errors=9)
    lake.write('default_schedule = "1s"\nmax_consecutive_errors = 1\ncanonical_periods = false\n')
    found = lake.look()
    assert (found.default_schedule, found.max_consecutive_errors, found.canonical_periods) == ("7s", 9, False)


def test_asked_for_it_is_read_at_once(tmp_path: Path) -> None:
    lake = Lake(tmp_path, "")
    lake.write("max_consecutive_errors = 5\n")
    assert lake.reloader.reload() == ("max_consecutive_errors",)
    assert lake.reloader.reload() == ()
    # The same size and the same time: nobody sees it, but who asks gets it.
    stamp = lake.file.stat()
    lake.write("max_consecutive_errors = 4\n")
    os.utime(lake.file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert lake.look(3).max_consecutive_errors == 5
    assert lake.reloader.reload() == ("max_consecutive_errors",)


def test_another_working_directory_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    file = tmp_path / "here" / "trickle.toml"
    file.write_text("max_consecutive_errors = 5\n", encoding="utf-8")
    for asked, folder in ((None, "here"), ("here", ".")):
        caplog.clear()
        monkeypatch.chdir(tmp_path / folder)
        used: list[Settings] = []
        reloader = Reloader(Settings.load(asked), used.append)
        assert reloader.settings.file == file
        monkeypatch.chdir(tmp_path / "there")
        assert reloader.reload() == ()
        assert "no longer" in caplog.text
        assert (used, reloader.settings.max_consecutive_errors) == ([], 5)


def test_settings_from_nowhere_have_no_file(tmp_path: Path) -> None:
    (tmp_path / "trickle.toml").write_text("max_consecutive_errors = 5\n", encoding="utf-8")
    used: list[Settings] = []
    reloader = Reloader(Settings(location=tmp_path), used.append)
    assert reloader.settings.file is None
    assert reloader.reload() == ()
    assert used == []


def test_an_explicit_file(tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text("max_consecutive_errors = 5\n", encoding="utf-8")
    used: list[Settings] = []
    reloader = Reloader(Settings.load(file), used.append)
    assert reloader.settings.file == file
    file.write_text("max_consecutive_errors = 55\n", encoding="utf-8")
    reloader.look()
    reloader.look()
    assert [s.max_consecutive_errors for s in used] == [55]


def test_what_is_not_live_waits(tmp_path: Path) -> None:
    now = Settings.load(tmp_path)
    for name, value in (("lease_seconds", 99), ("time_zone", "Europe/Berlin"), ("location", tmp_path / "other")):
        found = change(now, now.model_copy(update={name: value}))
        assert (found.settings, found.changed, found.waiting) == (now, (), (name,))
    for name in Settings.live():
        found = change(now, now.model_copy(update={name: "other"}))
        assert (getattr(found.settings, name), found.changed, found.waiting) == ("other", (name,), ())


# -- webhooks as a setting ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (["ftp://a.example/x"], "an http or https URL"),
        (["https://me:pw@a.example/T0KEN"], "without user and password"),
        (["https:///x"], "an http or https URL"),
        (["https://a.example:99999/x"], "an http or https URL"),
        ([{"url": "https://a.example", "secret": ""}], "the secret is empty"),
        ([{"url": "https://a.example", "secret": "whsec_*T0KEN*"}], "is not base64"),
        ([{"url": "https://a.example", "password": "T0KEN"}], "Extra inputs"),
        (["https://a.example/T0KEN", "https://a.example/T0KEN"], "given twice"),
        (7, "valid tuple"),
    ],
)
def test_a_wrong_webhook_is_refused_and_not_shown(tmp_path: Path, value: object, why: str) -> None:
    with pytest.raises(TrickleError, match=why) as caught:
        Settings.load(tmp_path, webhooks=value)
    assert "T0KEN" not in str(caught.value)


def test_webhooks_from_every_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trickle.toml").write_text(
        '[[webhooks]]\nurl = "https://a.example/x"\nsecret = "plain"\n[[webhooks]]\nurl = "http://b.example/y"\n',
        encoding="utf-8",
    )
    first, second = Settings.load(tmp_path).webhooks
    assert (first.key, second.key) == (b"plain", None)
    assert first.target != second.target
    monkeypatch.setenv("TRICKLE_WEBHOOKS", '["https://c.example/T0KEN"]')
    shown = Settings.load(tmp_path)
    assert shown.shown()["webhooks"] == ["https://c.example/…"]
    assert "T0KEN" not in repr(shown)
