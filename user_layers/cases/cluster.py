"""Cases on the workers of a Dask scheduler, which may be on many machines.

The scheduler hands a case whose worker has died to another one. What all need goes to every worker once.
"""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import user_layers
from firmware_sim.errors import DeviceCrash, MissingError, UsageError
from user_layers.cases.hand_out import AHEAD, InOrder, Opened, do, end

if TYPE_CHECKING:
    from distributed import Client, Future

Case = TypeVar("Case")
Result = TypeVar("Result")

_CONNECTING = 10.0  # seconds for the scheduler's first answer
_WORKERS = 60.0  # seconds in which there may be no worker
_AGAIN = 3  # times that a case is handed out once more
_LOOK = 2.0  # seconds between two looks at who works


def on_dask(
    address: str, open_: Callable[..., Opened[Case, Result]], words: tuple[Any, ...], cases: Iterable[Case]
) -> Iterator[Result]:
    """As `hand_out`, by the workers of the scheduler at `address`.

    Errors: MissingError without the package, a scheduler, or workers that can run this; UsageError for an
    address that is none, or workers with another release; DeviceCrash for a case that ends every worker that
    tries it, or when the scheduler goes away; those of the cases.
    """
    try:
        import distributed
        from distributed.client import FutureCancelledError
        from distributed.comm.addressing import get_address_host_port
    except ImportError as error:
        raise MissingError(
            "--dask needs Dask's distributed, which is not installed", hint="pip install tpulayer[cluster]"
        ) from error
    try:
        get_address_host_port(address)  # a client that finds it wrong ends after a while, and noisily
    except ValueError as error:
        raise UsageError(
            f"{address!r} is no address: {error}", hint="as `dask scheduler` prints it: tcp://HOST:PORT"
        ) from error
    try:
        client = distributed.Client(address, timeout=_CONNECTING, set_as_default=False)
    except OSError as error:
        raise MissingError(
            f"no Dask scheduler answers at {address}", hint="start one with `dask scheduler`"
        ) from error
    run = uuid4().hex
    with client:
        try:
            yield from _results(client, run, open_, words, cases)
        except distributed.KilledWorker as error:
            raise DeviceCrash(f"a case has ended every worker that tried it: {error}") from error
        except (OSError, FutureCancelledError) as error:  # also a closed connection
            raise DeviceCrash(f"the Dask scheduler at {address} went away: {error}") from error
        finally:
            with suppress(OSError):  # a scheduler that went away while it was asked
                if client.status == "running":
                    client.run(end, run, on_error="ignore")


def _results(
    client: Client,
    run: str,
    open_: Callable[..., Opened[Case, Result]],
    words: tuple[Any, ...],
    cases: Iterable[Case],
) -> Iterator[Result]:
    from distributed.client import FutureCancelledError

    _wait_for_workers(client)
    scattered = [client.scatter(words, broadcast=True, hash=False)]  # once more where they were lost
    order: InOrder[Result] = InOrder()
    ready: queue.SimpleQueue[Future] = queue.SimpleQueue()
    waiting: dict[Future, tuple[int, Case, int, int]] = {}  # without being held a future is cancelled

    def submit(number: int, case: Case, again: int) -> None:
        key = f"{run}-{number}-{again}"
        future = client.submit(do, run, open_, scattered[-1], number, case, key=key, pure=False)
        waiting[future] = number, case, again, len(scattered)
        future.add_done_callback(ready.put)

    def one() -> Iterator[Result]:
        future = _next(client, ready)
        number, case, again, scatters = waiting.pop(future)
        try:
            done = [future.result()]
        except FutureCancelledError:
            # By nobody: the scheduler forgets some that a worker had done when it died, and of what was
            # scattered it keeps one copy only (after two seconds), which may have been there.
            if client.status != "running" or again == _AGAIN:
                raise
            if scatters == len(scattered):
                scattered.append(client.scatter(words, broadcast=True, hash=False))
            submit(number, case, again + 1)
            done = []
        return order.of(done)

    for number, case in enumerate(cases):
        submit(number, case, 0)
        if len(waiting) >= AHEAD * max(1, sum(client.nthreads().values())):
            yield from one()
    while waiting:
        yield from one()


def _next(client: Client, ready: queue.SimpleQueue[Future]) -> Future:
    """One that is done, failed or lost. Errors: MissingError when nobody is left who could do it."""
    seen = time.monotonic()
    while True:
        try:
            return ready.get(timeout=_LOOK)
        except queue.Empty:
            if client.nthreads():
                seen = time.monotonic()
            elif time.monotonic() - seen > _WORKERS:
                raise _no_workers(client) from None


def _wait_for_workers(client: Client) -> None:
    """Until there is one. Errors: MissingError without any or where one lacks tpulayer; UsageError where one
    has another release."""
    try:
        client.wait_for_workers(1, timeout=_WORKERS)
    except asyncio.TimeoutError:
        raise _no_workers(client) from None
    for worker, release in client.run(_release, on_error="return").items():
        if isinstance(release, Exception):
            raise MissingError(
                f"the worker {worker} cannot run tpulayer: {release}",
                hint="install this release wherever a worker runs",
            )
        if release != user_layers.__version__:
            raise UsageError(
                f"the worker {worker} has tpulayer {release}, and this is {user_layers.__version__}",
                hint="install the same release everywhere",
            )


def _release() -> str:
    return user_layers.__version__


def _no_workers(client: Client) -> MissingError:
    return MissingError(
        f"the Dask scheduler at {client.scheduler.address} has had no worker for {_WORKERS:.0f} s",
        hint="start some: `dask worker ADDRESS --nthreads 1`",
    )
