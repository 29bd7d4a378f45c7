"""A damaged journal: it opens, the damage is set aside, and every request that is whole is read back as it was."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.collector.journal.filled import FILE, LOG, fill, opened

SMALL = [700] * 40
MIXED = [100, 3000, 20_000, 700, 60_000] * 10

Damage = Callable[[bytearray, random.Random], None]


def flip(data: bytearray, draw: random.Random) -> None:
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def truncate(data: bytearray, draw: random.Random) -> None:
    del data[draw.randrange(len(data)) :]


def overwrite_tail(data: bytearray, draw: random.Random) -> None:
    data[-300:] = draw.randbytes(300)


def append_garbage(data: bytearray, draw: random.Random) -> None:
    data += draw.randbytes(1000)


def overwrite_start(data: bytearray, draw: random.Random) -> None:
    data[:50] = draw.randbytes(50)


def overwrite_page(data: bytearray, draw: random.Random) -> None:
    at = draw.randrange(max(1, len(data) // 4096)) * 4096
    data[at : at + 4096] = draw.randbytes(4096)[: len(data) - at]


def damaged(folder: Path, name: str, damage: Damage, seed: int) -> None:
    path = folder / name
    data = bytearray(path.read_bytes())
    damage(data, random.Random(seed))
    path.write_bytes(data)


@pytest.mark.parametrize("sizes", [SMALL, MIXED])
@pytest.mark.parametrize("written_back", [0, 25])
def test_a_crash_is_no_damage(tmp_path: Path, sizes: list[int], written_back: int) -> None:
    left = fill(tmp_path / "j", sizes, written_back=written_back)
    found, contents, aside = opened(tmp_path / "j")
    assert found == left
    assert (aside, contents.lost, contents.damaged) == (0, 0, False)
    assert contents.forwarded == set(left)
    assert [(e.id, e.settled, e.memory) for e in contents.endings] == [(1, True, 3)]


@pytest.mark.parametrize("damage", [flip, overwrite_tail, append_garbage, overwrite_start])
@pytest.mark.parametrize(("sizes", "most"), [(SMALL, 0), (MIXED, 1)])
def test_damage_in_the_log_costs_at_most_the_request_it_hits(
    tmp_path: Path, damage: Damage, sizes: list[int], most: int
) -> None:
    left = fill(tmp_path / "j", sizes)
    for seed in range(4):
        shutil.copytree(tmp_path / "j", tmp_path / f"{seed}")
        damaged(tmp_path / f"{seed}", LOG, damage, seed)
        found, contents, aside = opened(tmp_path / f"{seed}")
        assert aside == 1
        assert contents.damaged
        assert found.items() <= left.items()
        assert len(left) - len(found) <= most
        assert opened(tmp_path / f"{seed}")[0] == found  # put right for good


def test_a_log_cut_short_leaves_what_came_before(tmp_path: Path) -> None:
    left = fill(tmp_path / "j", MIXED, written_back=25)
    for seed in range(6):
        shutil.copytree(tmp_path / "j", tmp_path / f"{seed}")
        damaged(tmp_path / f"{seed}", LOG, truncate, seed)
        found, _, _ = opened(tmp_path / f"{seed}")
        assert all(found[number] == left[number] for number in found.keys() & left.keys())
        assert {n for n in left if n <= 25} <= found.keys()


@pytest.mark.parametrize("damage", [flip, truncate, overwrite_tail, overwrite_start, overwrite_page])
def test_damage_in_the_file_costs_what_it_hits_alone(tmp_path: Path, damage: Damage) -> None:
    left = fill(tmp_path / "j", MIXED, written_back=len(MIXED))
    (tmp_path / "j" / LOG).unlink()
    saved = []
    for seed in range(8):
        shutil.copytree(tmp_path / "j", tmp_path / f"{seed}")
        damaged(tmp_path / f"{seed}", FILE, damage, seed)
        found, contents, aside = opened(tmp_path / f"{seed}")
        assert found.items() <= left.items()
        assert aside == contents.damaged
        assert aside or found == left
        saved.append(len(found))
        if damage is not truncate:
            assert len(found) >= len(left) - 6  # rows that share a page
    assert max(saved) > len(left) // 2


@pytest.mark.parametrize("written_back", [0, 12])
def test_no_flipped_bit_of_a_header_keeps_it_from_starting(tmp_path: Path, written_back: int) -> None:
    """Some of them make SQLite take the file for one that is read-only, or that a later SQLite has written."""
    left = fill(tmp_path / "j", SMALL[:12], written_back=written_back)
    draw = random.Random(1)
    for name, places in ((FILE, range(100)), (LOG, range(0, 156, 5))):
        whole = (tmp_path / "j" / name).read_bytes()
        for at in places:
            shutil.copytree(tmp_path / "j", tmp_path / "flipped")
            data = bytearray(whole)
            data[at] ^= 1 << draw.randrange(8)
            (tmp_path / "flipped" / name).write_bytes(data)
            found, _, _ = opened(tmp_path / "flipped")
            assert found.items() <= left.items()
            assert len(left) - len(found) <= 1
            shutil.rmtree(tmp_path / "flipped")


def test_the_damaged_files_stay_under_a_name_that_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path / "j", SMALL)
    before = (tmp_path / "j" / FILE).read_bytes()
    damaged(tmp_path / "j", LOG, flip, 1)
    log = (tmp_path / "j" / LOG).read_bytes()
    opened(tmp_path / "j")
    (aside,) = (tmp_path / "j").glob("damaged-*.sqlite3")
    assert aside.read_bytes() == before
    assert Path(f"{aside}-wal").read_bytes() == log
    assert aside.stat().st_mode & 0o777 == 0o600
    assert str(aside) in caplog.text
    assert f"{len(SMALL) - 10} requests were saved" in caplog.text


@pytest.mark.parametrize("how", ["empty", "gone"])
def test_without_its_file_the_log_is_read(tmp_path: Path, how: str) -> None:
    left = fill(tmp_path / "j", SMALL)
    if how == "empty":
        (tmp_path / "j" / FILE).write_bytes(b"")
    else:
        (tmp_path / "j" / FILE).unlink()
    found, _, aside = opened(tmp_path / "j")
    assert (found, aside) == (left, 1)


def test_a_repair_cut_short_is_finished_at_the_next_start(tmp_path: Path) -> None:
    left = fill(tmp_path / "j", SMALL)
    other = fill(tmp_path / "new", [500] * 5)
    opened(tmp_path / "new")  # writes its log back
    shutil.move(tmp_path / "new" / FILE, tmp_path / "j" / "repaired.sqlite3")
    found, _, aside = opened(tmp_path / "j")
    assert (found, aside) == (other, 0)
    assert found != left


def test_random_bytes_are_a_journal_without_requests(tmp_path: Path) -> None:
    draw = random.Random(3)
    for size in (1, 31, 4096, 50_000):
        folder = tmp_path / f"{size}"
        fill(folder, [10])
        for name in (FILE, LOG):
            (folder / name).write_bytes(draw.randbytes(size))
        found, contents, aside = opened(folder)
        assert (found, contents.forwarded, contents.endings, aside) == ({}, set(), [], 1)
