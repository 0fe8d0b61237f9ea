"""Where points run: processes of this machine, Dask or Ray, by their own clients.

An engine takes points and yields each with its file's content or its error, in any order. It is told in words: `local`, `local:8`,
`dask:tcp://head:8786`, `ray:auto`.
"""
from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .._pellucid import Error
from .points import Point, run_point

Ended = tuple[Point, "bytes | None", "str | None"]

#: A point whose worker dies is begun so often in all.
ATTEMPTS_MAX = 3


def _try(point: Point) -> tuple[bytes | None, str | None]:
    """Runs a point; what goes wrong in it is its result."""
    try:
        return run_point(point), None
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


def local(points: list[Point], address: str) -> Iterator[Ended]:
    """Runs points in processes of this machine, by default one for each core. Points of a process that dies are begun anew."""
    try:
        workers = int(address) if address else os.cpu_count() or 1
    except ValueError:
        workers = 0
    if workers < 1:
        raise Error(f"local:{address}: allowed: a number of processes from 1 on")
    yield from _in_processes(points, workers)


def _pool(workers: int) -> concurrent.futures.ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return concurrent.futures.ProcessPoolExecutor(workers, context, initializer=_end_with_the_driver)


def _end_with_the_driver() -> None:
    """Has a process end when its driver does, even if that was killed."""
    driver = multiprocessing.parent_process()

    def wait() -> None:
        if driver:
            driver.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _in_processes(points: list[Point], workers: int) -> Iterator[Ended]:
    """A process that dies takes the pool with it. Points that were under way are begun anew, each in a pool of its own, so that the one
    at fault is found; the others go on."""
    waiting = list(points)
    while waiting:
        with _pool(workers) as pool:
            futures = {pool.submit(_try, point): point for point in waiting}
            waiting = []
            for future in concurrent.futures.as_completed(futures):
                try:
                    yield futures[future], *future.result()
                except concurrent.futures.process.BrokenProcessPool:
                    waiting.append(futures[future])
        # They are begun in their order: the first were under way, and those behind have not begun.
        waiting.sort(key=lambda point: point.number)
        suspects, waiting = waiting[:workers], waiting[workers:]
        for point in suspects:
            yield _alone(point)


def _alone(point: Point) -> Ended:
    for _ in range(ATTEMPTS_MAX - 1):
        with _pool(1) as pool:
            try:
                return point, *pool.submit(_try, point).result()
            except concurrent.futures.process.BrokenProcessPool:
                continue
    return point, None, f"its process died {ATTEMPTS_MAX} times"


def dask(points: list[Point], address: str) -> Iterator[Ended]:
    """Runs points on a cluster of Dask.distributed. The scheduler begins points of a dead worker anew."""
    distributed = _module("distributed", "pip install distributed")
    if not address:
        raise Error("--on dask: no address; allowed: dask:ADDRESS, such as dask:tcp://head:8786")
    with _reached(f"dask:{address}", lambda: distributed.Client(address, timeout="30s")) as client:
        futures = client.map(_try, points, key=[f"pellucid-{point.id}" for point in points], pure=True)
        by_key = {future.key: point for future, point in zip(futures, points)}
        ended = distributed.as_completed(futures)
        for future in ended:
            if future.status in ("pending", "lost"):
                # Its worker died with the result; the scheduler begins it anew.
                ended.add(future)
                continue
            point = by_key[future.key]
            if future.status == "finished":
                yield point, *future.result()
            else:
                yield point, None, f"{future.status}: {future.exception()}"
            future.release()


def ray(points: list[Point], address: str) -> Iterator[Ended]:
    """Runs points on a cluster of Ray, which begins points of a dead worker anew."""
    client = _module("ray", "pip install ray")
    where = None if address == "local" else address or "auto"
    _reached(f"ray:{address}", lambda: client.init(address=where, ignore_reinit_error=True, log_to_driver=False))
    task = client.remote(max_retries=ATTEMPTS_MAX - 1)(_try)
    waiting = {task.remote(point): point for point in points}
    while waiting:
        (done, *_), _ = client.wait(list(waiting), num_returns=1)
        point = waiting.pop(done)
        try:
            yield point, *client.get(done)
        except client.exceptions.RayError as error:
            yield point, None, f"{type(error).__name__}: {error}"


def _reached(on: str, connect: Callable[[], Any]) -> Any:
    """What a client that connects to a cluster gives; a cluster that it does not reach is named in one line."""
    try:
        return connect()
    except (OSError, ValueError, RuntimeError) as error:
        why = str(error).strip().splitlines()
        raise Error(f"--on {on}: not reached: {why[0] if why else type(error).__name__}; allowed: the address of a cluster that runs") from None


def _module(name: str, how: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Error(f"{name}: not installed ({error}); allowed: after {how}") from None


ENGINES = {"local": local, "dask": dask, "ray": ray}


def on(words: str, points: Iterable[Point]) -> Iterator[Ended]:
    """Runs points on the engine that `words` name."""
    name, _, address = words.partition(":")
    if name not in ENGINES:
        raise Error(f"--on {words}: not allowed; allowed: local, local:N, dask:ADDRESS, ray:ADDRESS")
    return ENGINES[name](list(points), address)
