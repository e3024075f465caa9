# SPDX-License-Identifier: Apache-2.0
"""A PyTorch program that does not know of us: its steps, phases and sampled operations.

Steps. In a training each step ends with a step of its optimizer (step_ends.py) and the next one begins
there, so that nothing between them is lost. One that GradScaler has skipped counts too. The first step
begins with the first batch or forward pass. What follows the last optimizer step is not a step. Where
no optimizer was ever created, each outermost call of a model in eval mode or without gradients is a
step: a batch, or a token in generate().

Nothing here may end or disturb the program: if anything fails, everything is taken out again and the
run says why. A program that profiles itself is left alone from there on. Nothing here calls CUDA: that
would initialise it, and the program could not fork any more.

The library is loaded with the first batch, forward or backward pass. So launchers, which import torch
and train nothing, have no part in the run. Neither have the workers of a DataLoader, whatever they
call. Other children, forked or not, are processes of the run like any other.
"""
import atexit
import os
import time
from typing import TYPE_CHECKING, Any, Callable

from .. import _library as lib
from .. import api, errors, runs
from .._types import Args, Function, Json
from ..torchlike.phases import Open, Phases, hide_from_compiler, tokens_of
from .budget import SHARE, Budget
from .operations import Operations
from .step_ends import StepEnds

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

_KEY = "auto"
_OPERATIONS = f"{_KEY} operations"  # tables.h knows it
_NAMED = 10  # sampled steps that the run names


# The last one, once there was one: what is called after a fork is called for the rest of the process.
_installed: list["Program"] = []


def _forked() -> None:
    _installed[0]._forked()


class _Nothing:
    def end(self) -> None:
        pass


class _Range:
    """An open phase. It has no state, so there is one for each phase."""
    __slots__ = ("_phase", "_program")

    def __init__(self, program: "Program", phase: int) -> None:
        self._program, self._phase = program, phase

    def end(self) -> None:
        self._program.calls.moescope_range_end()
        self._program.phase_ended(self._phase)


class _SampledRange(_Range):
    """In a step whose operations are recorded: they need to know when it was."""
    __slots__ = ("_start",)

    def __init__(self, program: "Program", phase: int) -> None:
        super().__init__(program, phase)
        self._start = time.monotonic_ns()

    def end(self) -> None:
        self._program.operations.spans.append((self._start, time.monotonic_ns(), self._phase))
        super().end()


class Program(Phases):
    # Compiled code may call torch.autograd.grad, and knows it by its identity.
    _backward_calls = ("backward",)

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__()
        self._note = note
        self.library: Any = None  # None: not loaded yet, or in a new child
        self.operations = Operations()
        self._reset()

    def _reset(self) -> None:
        """As in a process that has done nothing yet."""
        self.library = None
        self.calls: Any = None  # its functions for every step, which do not let go of Python's lock
        self._names: dict[str, int] = {}
        self._ranges: dict[str, _Range] = {}
        self._ends = StepEnds()
        self._budget = Budget()
        self._samples = True  # operations, in some steps
        self._sampled: list[int] = []
        self._switched_ns = 0
        self._step = -1  # the open one, or the last
        self._open_step = False
        self._step_start = 0
        self._done = 0
        self._tokens = 0
        self._in_training_step = False  # a training forward pass has begun in it
        self._inference = False  # a step is a call of a model
        self._end_after_backward = False
        self._optimizer_steps = 0
        self._trains = False  # an optimizer was created
        self._optimizer_ends = False  # and has made a step

    # ------------------------------------------------------------------ installing

    def install(self) -> None:
        from torch.autograd import profiler, profiler_legacy

        try:
            from torch.amp import grad_scaler
        except ImportError:  # torch before 2.3
            from torch.cuda.amp import grad_scaler

        super().install()
        self._replace(grad_scaler.GradScaler, "step", self._scaler_step)
        for module, name in ((profiler, "_prepare_profiler"), (profiler, "_enable_profiler"),
                             (profiler_legacy, "_enable_profiler_legacy")):
            self._replace(module, name, self._other_profiler)
        for end in (_Range.end, _SampledRange.end):
            hide_from_compiler(end, and_inside=True)
        api.before_own.append(self._yield_to)
        atexit.register(self._at_exit)
        if not _installed:
            os.register_at_fork(after_in_child=_forked)
        _installed[:] = [self]

    def remove(self) -> None:
        super().remove()
        atexit.unregister(self._at_exit)
        if self._yield_to in api.before_own:
            api.before_own.remove(self._yield_to)

    def _entries(self) -> list[Function]:
        return [*super()._entries(), self._yield_to, self._scaler_stepped]

    def _forked(self) -> None:
        """What is open belongs to the parent."""
        if self._on:
            self._with_operations(lambda: self.operations.stop(write=False))
            self._reset()

    def _begin(self) -> bool:
        """Loads the library, which starts recording; False: this process is not recorded."""
        from torch.utils.data import get_worker_info

        if get_worker_info() is not None:
            self.remove()
            return False
        try:
            library = lib.load()
        except errors.MoescopeError as why:
            self._leave(f"steps and phases of PyTorch are not recorded: {why}")
            return False
        library.moescope_start(None)
        if not library.moescope_run_dir():
            self.remove()
            return False
        self.library, self.calls = library, lib.short_calls(library)
        self._names = {name: api.intern(name) for name in api.PHASES if name}
        self._ranges = {name: _Range(self, number) for name, number in api.PHASES.items() if name}
        self._step = int(library.moescope_current_step())
        self._tell_steps("no step, because no optimizer has made one and no model was called in eval mode "
                         "or without gradients")
        return True

    def _tell_steps(self, words: str) -> None:
        """Replaces what was told before."""
        api.info(_KEY, f"steps and phases of PyTorch were found without the program's help: {words}; times "
                 "are the host's ('run --no-auto' switches it off)")

    def _leave(self, words: str) -> None:
        """Takes everything out again; the run says why."""
        if not self._on:
            return
        self.remove()
        try:
            self.operations.stop(write=False)
            if self.library is not None:
                self._cancel_step()
                api.info(_KEY, words)
                return
        except Exception as why:
            words += f" ({type(why).__name__}: {why})"
        self._note(words)

    def _fail(self, why: BaseException) -> None:
        self._leave(f"steps and phases of PyTorch end after {self._done} steps, because of a fault of "
                    f"moescope; please report it: {type(why).__name__}: {why}")

    def _yield_to(self, what: str) -> None:
        self._leave(f"the program profiles itself ({what}), so steps and phases are left to it"
                    + (f" after {self._done} steps" if self._done else ""))

    def _at_exit(self) -> None:
        """What follows the last optimizer step is not a step."""
        if not self._on or self.library is None:
            return
        try:
            self.operations.stop(write=False)
            self._cancel_step()
        except Exception as why:
            self._fail(why)

    # ------------------------------------------------------------------ steps

    def _begin_step(self) -> None:
        step = self._step + 1
        now_ns = time.monotonic_ns()
        if self._samples and self._budget.wants(self._done, now_ns) \
                and runs.level() >= lib.TRACE and self._may_sample():
            self._with_operations(self.operations.start)
        # The first may still become the program's own, if it calls moescope.step after it.
        begin = self.calls.moescope_step_guess if self._done == 0 else self.calls.moescope_step_begin
        self._step_start = time.monotonic_ns()
        begin(step)
        self._step, self._open_step = step, True
        self._switched_ns = self._step_start - now_ns
        self._in_training_step = False

    def _end_step(self) -> None:
        if int(self.calls.moescope_current_step()) != self._step:
            self._open_step = False
            self._yield_to("it marks its own steps")
            return
        self.calls.moescope_step_end(self._tokens)
        end_ns = time.monotonic_ns()
        self._tokens, self._open_step = 0, False
        self._done += 1
        duration_ns = end_ns - self._step_start
        if self.operations.on:
            self._with_operations(self.operations.stop)
            self._tell_samples()
            self._budget.sampled_step(duration_ns, self._switched_ns + time.monotonic_ns() - end_ns)
        else:
            self._budget.plain_step(duration_ns)

    def _cancel_step(self) -> None:
        """What has begun is not a step after all."""
        if self._open_step:
            self._open_step = False
            self._step -= 1
            self.library.moescope_step_cancel()

    def _may_sample(self) -> bool:
        """Beside CUDA torch's older collector has not been tried enough to be on by itself. Whether CUDA is
        used is a variable of torch's: nothing is initialised by asking."""
        import torch

        if torch.cuda.is_initialized():
            self._samples = False
            api.info(_OPERATIONS, "not recorded: beside CUDA that is left to moescope.profile")
        return self._samples

    def _with_operations(self, call: Callable[[], None]) -> None:
        """torch's collector is not made for others and differs between versions: steps and phases do
        without it."""
        try:
            call()
        except Exception as why:
            self._samples = False
            api.info(_OPERATIONS, f"not recorded from step {self._step + 1} on: "
                     f"{type(why).__name__}: {why}")

    def _tell_samples(self) -> None:
        """Replaces what was told before."""
        if self._samples:
            self._sampled.append(self._step)
            steps = ", ".join(map(str, self._sampled[:_NAMED]))
            more = len(self._sampled) - _NAMED
            api.info(_OPERATIONS,
                     f"recorded in {'step' if len(self._sampled) == 1 else 'steps'} {steps}"
                     + (f" and {more} more" if more > 0 else "")
                     + f", as many as {SHARE:.1%} of the time pays for; 'moescope ops --steps "
                     f"{self._step}:{self._step}' shows the last of them whole")

    def _optimizer_stepped(self, optimizer: "Optimizer") -> None:
        self._trains = True
        if not self._optimizer_ends:
            self._optimizer_ends = True
            before = f" (but step 0 to {self._done - 1}: calls of a model before that)" if self._done else ""
            self._tell_steps(f"a step ends with each step of {type(optimizer).__name__}{before}")
        if self._ends.ends(optimizer):
            if self._backwards:  # an optimizer that steps inside the backward pass
                self._end_after_backward = True
            else:
                self._next_step()

    def _next_step(self) -> None:
        if self._open_step:
            self._end_step()
            # Later ones begin where the one before has ended.
            if self._on and self._done > 1:
                self._begin_step()

    def _expects_training(self) -> bool:
        """An optimizer has been created: torch marks its class."""
        if not self._trains:
            from torch.optim import Optimizer

            classes = [Optimizer]
            for one in classes:
                classes += one.__subclasses__()
                step = vars(one).get("step")
                self._trains = self._trains or getattr(step, "hooked", False)
        return self._trains

    # ------------------------------------------------------------------ phases

    def _open(self, phase: str, annotate: bool = True) -> Open:
        try:
            if self._thread.optimizers:
                self._end_failed_optimizers()
            if self.library is None and not self._begin():
                return _Nothing()
            if not self._open_step and not self._inference and self._expects_training():
                self._begin_step()
            return self._range(phase)
        except Exception as why:
            self._fail(why)
            return _Nothing()

    def _range(self, phase: str) -> Open:
        number = api.PHASES[phase]
        opened = _SampledRange(self, number) if self.operations.on else self._ranges[phase]
        self.calls.moescope_range_begin(self._names[phase], -1, -1, number)
        return opened

    def _open_module(self, module: "nn.Module", args: Args, kwargs: Json) -> Open:
        try:
            if self._thread.optimizers:
                self._end_failed_optimizers()
            if self.library is None and not self._begin():
                return _Nothing()
            phase = self._phase_of(module)
            self._before_module(phase, module)
            if phase == "forward":
                self._tokens += tokens_of(kwargs)
            return self._range(phase)
        except Exception as why:
            self._fail(why)
            return _Nothing()

    def _before_module(self, phase: str, module: "nn.Module") -> None:
        if self._expects_training():
            if phase == "evaluation" and not self._trained and not self._in_training_step:
                # A look at the validation data before the training begins: no part of its first step.
                self._cancel_step()
            elif not self._open_step:
                self._begin_step()
            self._in_training_step = self._in_training_step or phase == "forward"
        elif phase == "forward" and not self._open_step and self._evaluates(module):
            if self._done == 0:
                self._tell_steps(f"there is no optimizer, so a step is a call of {type(module).__name__}")
            self._inference = True
            self._begin_step()

    def _evaluates(self, module: "nn.Module") -> bool:
        return not module.training or not self._is_grad_enabled()

    def _phase_of(self, module: "nn.Module") -> str:
        if not self._backwards and not module.training and not self._is_grad_enabled() \
                and self._expects_training():
            return "evaluation"
        return super()._phase_of(module)

    def phase_ended(self, phase: int) -> None:
        try:
            if not self._on or self.library is None:
                return
            if self._inference and phase == lib.FORWARD and self._open_step:
                self._inference = False
                self._end_step()
            elif self._end_after_backward and not self._backwards:
                self._end_after_backward = False
                self._next_step()
        except Exception as why:
            self._fail(why)

    def _after_optimizer(self, optimizer: "Optimizer", args: Args, kwargs: Json) -> None:
        super()._after_optimizer(optimizer, args, kwargs)
        try:
            if self._on and self.library is not None and not self._thread.optimizers:
                self._optimizer_steps += 1
                self._optimizer_stepped(optimizer)
        except Exception as why:
            self._fail(why)

    def _scaler_step(self, original: Function) -> Function:
        """GradScaler leaves a step out when gradients are not finite: the program has made one."""
        def step(scaler: object, optimizer: "Optimizer", *args: object, **kwargs: object) -> Any:
            before = self._optimizer_steps
            result = original(scaler, optimizer, *args, **kwargs)
            if self._on and self._optimizer_steps == before:
                self._scaler_stepped(optimizer)
            return result
        step.__name__, step.__doc__ = "step", original.__doc__
        return step

    def _scaler_stepped(self, optimizer: "Optimizer") -> None:
        try:
            if self.library is not None:
                self._optimizer_stepped(optimizer)
        except Exception as why:
            self._fail(why)

    def _other_profiler(self, original: Function) -> Function:
        """torch has one profiler at a time."""
        def call(*args: object, **kwargs: object) -> Any:
            self._yield_to("a profiler of torch")
            return original(*args, **kwargs)
        return call


def install(note: Callable[[str], None]) -> None:
    """Once in a process, after torch has been imported. note: for the run, where the library has not
    been loaded."""
    program = Program(note)
    try:
        program.install()
    except BaseException:
        program.remove()
        raise
