"""The training loop: update, log, validate, save; it can stop and resume bit-exactly at any step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lamina.base.devices import Precision, choose_precision
from lamina.base.malloc import trim_heap
from lamina.corpus.batches import Position, Update
from lamina.corpus.prepared import PreparedData
from lamina.errors import DivergenceError, StoppedError
from lamina.model.encoders.stack import recompute_layers
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.schema import Every, Recipe
from lamina.store.model_folder import assign_weights
from lamina.store.run import Run
from lamina.training.distributed import Ranks
from lamina.training.ema import MovingAverage
from lamina.training.growing import prepare_growth
from lamina.training.objective import Objective, encoder_gradient_norms, first_bad_gradient
from lamina.training.prefetch import TensorUpdate, load_update, make_batches, prefetch
from lamina.training.reporters import Reporter, describe_end, describe_step, describe_training, describe_validation
from lamina.training.resuming import (
    check_same_update,
    find_checkpoint,
    restore_random,
    resumed_precision,
    resumed_window,
    start_from,
)
from lamina.training.schedule import learning_rate
from lamina.training.signals import EXIT_CODES, catch_signals
from lamina.training.statistics import FailedUpdates, Pace, Speed, Tally, Window, perplexity
from lamina.training.validation import validation_bleu, validation_loss

STOP_EVERY = 10  # interval in steps at which ranks check together whether to stop
FP16_PATIENCE = 20  # consecutive failed updates; adjusting the loss scale takes fewer


class Trainer:
    """Trains one recipe on prepared data, on this rank."""

    def __init__(
        self,
        recipe: Recipe,
        data: PreparedData,
        run: Run,
        ranks: Ranks,
        reporter: Reporter,
        start: Path | None = None,
        grow: Path | None = None,
    ) -> None:
        self.recipe, self.train, self.data, self.run, self.ranks = recipe, recipe.train, data, run, ranks
        self.reporter = reporter
        torch.manual_seed(self.train.seed)
        self.model = Seq2Seq(recipe.model).to(ranks.device)
        if start is not None:
            start_from(start, self.model, data)
        prepare_growth(grow, self.model, data)
        if self.train.gradient_checkpointing:
            recompute_layers(self.model.encoder)
        if ranks.device.type == "cpu" and not self.train.compile:
            trim_heap(self.model)
        self.ema = None if self.train.ema is None else MovingAverage(self.model, self.train.ema)
        kind = torch.optim.Adam if self.train.optimizer == "adam" else torch.optim.AdamW
        self.optimizer = kind(
            self.model.parameters(), lr=0.0, betas=self.train.betas, weight_decay=self.train.weight_decay, fused=True
        )
        precision = choose_precision(self.train.precision, ranks.device)
        self.objective = Objective(self.model, ranks, self.train.label_smoothing, precision, self.train.compile)
        self.scaler = self._make_scaler(precision)
        self.batches, self.valid = make_batches(recipe, data, ranks)
        torch.manual_seed(self.train.seed * 1_000_003 + ranks.rank)  # different dropout masks on each rank
        self.step, self.position, self.tally = 0, Position(), Tally(ranks.device)
        self.failed, self.speed, self.pace = FailedUpdates(ranks.device), Speed(), Pace()
        self.gradient_norms: list[tuple[int, Tensor]] = []  # not read yet: step and norms on the device
        self.saved_step = -1
        self.ranking: list[tuple[float, int]] = []  # best validations so far as (value, step), best first
        self.stale_validations = 0
        self.signals: list[int] = []  # received so far

    def fit(self) -> None:
        """Train to the end, from the newest checkpoint if there is one."""
        for line in describe_training(self.recipe, self.model, self.batches, self.ranks, self.objective.precision):
            self.reporter.say(line)
        self.resume()
        self.model.train()
        self.speed, self.pace = Speed(), Pace()
        with catch_signals(self.signals):
            for update, position in self._updates():
                if self.step >= self.train.max_steps or self._should_stop_early():
                    break
                self.update(update)
                self.step, self.speed.tokens = self.step + 1, self.speed.tokens + update.tokens
                new_epoch = position.epoch > self.position.epoch
                self.position = position
                loss, speed = self.tally.glance(), self.speed.per_second()
                self.reporter.progress(self.step, self.train.max_steps, loss, speed)
                announcement = self.pace.step(self.train.max_steps - self.step)
                if announcement:
                    self.reporter.say(announcement)
                if self.step % self.train.log_every == 0:
                    self._log()
                ended = self.step == self.train.max_steps
                if self._due(self.train.validate_every, new_epoch) or ended:
                    with self.speed.pause(self.tally):
                        self._validate()
                if self._due(self.train.save_every, new_epoch) or ended or self.step in self.best_steps:
                    with self.speed.pause(self.tally):
                        self.save()
                if self._is_asked_to_stop():
                    break
        self.finish()

    def _updates(self) -> Iterator[tuple[TensorUpdate, Position]]:
        device = self.ranks.device
        return prefetch(
            self.batches.iterate(self.position), lambda item: (load_update(item[0], device), item[1]), device
        )

    def _make_scaler(self, precision: Precision) -> torch.amp.GradScaler:
        return torch.amp.GradScaler(self.ranks.device.type, enabled=precision == "fp16")

    def resume(self) -> None:
        """Resume from the newest intact checkpoint, which the first rank chooses."""
        step = self.ranks.gather(find_checkpoint(self.run, self.reporter.say) if self.ranks.first else None)[0]
        if step is not None:
            self._restore(step)
            if self.ranks.first and self.best_steps:  # the run may have been killed before it recorded its best step
                self.run.checkpoints.set_pointer("best", self.best_steps[0])
            self.reporter.say(f"Resumed from step {step}.")

    def save(self) -> None:
        """Write a checkpoint with the full training state."""
        self._check_failures()
        self._record_gradients()
        self.saved_step = self.step
        own = {"random": torch.get_rng_state(), "window": asdict(self.tally.read())}
        if self.ranks.device.type == "cuda":
            own["cuda_random"] = torch.cuda.get_rng_state(self.ranks.device)
        rank_states = self.ranks.gather(own)
        if not self.ranks.first:
            return
        state = {
            "step": self.step,
            "position": asdict(self.position),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "ranks": rank_states,
            "update_tokens": self.batches.capacity,
            "precision": self.objective.precision,
            "ranking": self.ranking,
            "stale_validations": self.stale_validations,
            "metrics_bytes": self.run.metrics.stat().st_size,
        }
        if self.ema is not None:  # the checkpoint's model holds the average
            state["weights"] = {name: weight.detach() for name, weight in self.model.named_parameters()}
        best = self.best_steps[:1] == [self.step]
        with self._averaged():
            self.run.checkpoints.save(self.step, self.model, self.data.text, self.recipe.decode, state)
            if best or not self.ranking:
                self._write_model(self.step)
        if best:
            self.run.checkpoints.set_pointer("best", self.step)
        self.run.checkpoints.prune(self.train.keep_last, set(self.best_steps))
        self.reporter.saved(self.step, self.run.checkpoints.path(self.step), best)

    def finish(self) -> None:
        """Save unless the last step is saved, and write `model/` from the best checkpoint, or from the last."""
        if self.saved_step != self.step:
            self.save()
        if self.ranks.first:
            chosen = self.run.checkpoints.pointer("best") or self.step
            self.run.checkpoints.load_weights(chosen, self.model)
            self._write_model(chosen)
            stale = self.stale_validations if self._should_stop_early() else 0
            self.reporter.say(describe_end(self.step, chosen, self.run, stale))

    def _write_model(self, step: int) -> None:
        origin = f"Step {step} of the run `{self.recipe.name}`."
        self.run.write_model(self.model, self.data.text, self.recipe.decode, origin)

    def _restore(self, step: int) -> None:
        state = self.run.checkpoints.load_state(step)
        check_same_update(state, self.train, self.batches, self.ranks, self.run.folder)
        self.run.checkpoints.load_weights(step, self.model)
        if self.ema is not None:
            self.ema.load(dict(self.model.named_parameters()))
            assign_weights(self.model, state["weights"], str(self.run.checkpoints.path(step)))
        self.optimizer.load_state_dict(state["optimizer"])
        precision, note = resumed_precision(state, self.train, self.ranks.device)
        if note:
            self.reporter.say(note)
        self.objective.precision, self.scaler = precision, self._make_scaler(precision)
        if self.scaler.is_enabled() and state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])
        restore_random(state, self.train.seed, self.ranks)
        self.step, self.position, self.saved_step = state["step"], Position(**state["position"]), step
        self.tally = Tally(self.ranks.device, resumed_window(state, self.ranks))
        self.ranking, self.stale_validations = state["ranking"], state["stale_validations"]
        if self.ranks.first:
            with self.run.metrics.open("r+b") as records:  # later records will be written again
                records.truncate(state["metrics_bytes"])

    def update(self, update: Update | TensorUpdate) -> None:
        """Take one optimizer step, without synchronising with a GPU."""
        if isinstance(update, Update):
            update = load_update(update, self.ranks.device)
        rate = learning_rate(self.train, self.step + 1)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        self.objective.backward(update, self.scaler, self.tally)
        self.scaler.unscale_(self.optimizer)
        if self.train.encoder_l2 is not None:
            for parameter in self.model.encoder.parameters():
                if parameter.dim() > 1 and parameter.grad is not None:
                    parameter.grad.add_(parameter.detach(), alpha=self.train.encoder_l2)
        if (self.step + 1) % self.train.gradients_every == 0:
            self.gradient_norms.append((self.step + 1, encoder_gradient_norms(self.model)))
        gradients = [weight.grad for weight in self.model.parameters() if weight.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if self.train.clip_norm is not None:
            torch.nn.utils.clip_grads_with_norm_(self.model.parameters(), self.train.clip_norm, norm)
        self._step_unless_failed(norm)
        if self.ema is not None:
            self.ema.update()

    def _step_unless_failed(self, norm: Tensor) -> None:
        """Raise immediately on a CPU if the gradient is not finite; on a GPU skip the step.

        There the fused optimizer checks `found_inf`, and the failure is raised when the counter is next read.
        """
        failed = self.failed.add(norm)
        if not self.scaler.is_enabled():
            if self.ranks.device.type == "cpu":
                self._check_failures()
            else:
                self.optimizer.found_inf = failed  # type: ignore[attr-defined]
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def _check_failures(self) -> None:
        """Raise if training has diverged; in fp16 a few failures in a row only mean that the loss scale is too high."""
        total, in_a_row = self.failed.read()
        if in_a_row >= FP16_PATIENCE if self.scaler.is_enabled() else total > 0:
            bad = first_bad_gradient(self.model)
            raise self._divergence(f"the gradient{'' if bad is None else f' of {bad}'} is not finite", in_a_row)

    def _divergence(self, reason: str, in_a_row: int = 0) -> DivergenceError:
        last = self.run.checkpoints.pointer("last")
        path = None if last is None else self.run.checkpoints.path(last)
        where = "no checkpoint was written" if path is None else f"the last good checkpoint is {path}"
        first = self.step + 1 - max(0, in_a_row - 1)
        return DivergenceError(
            f"Training diverged at step {first}: {reason}; {where}. "
            "Lower train.lr, raise train.warmup or set train.clip_norm."
        )

    def _record_gradients(self) -> None:
        for step, norms in self.gradient_norms:
            self.reporter.record({"kind": "gradients", "step": step, "encoder": norms.tolist()})
        self.gradient_norms = []

    def _log(self) -> None:
        self._check_failures()
        self._record_gradients()
        speed = self.speed.per_second()
        total = Window.sum(self.ranks.gather(self.tally.read()))
        self.tally, self.speed = Tally(self.ranks.device), Speed()
        record = {
            "kind": "train",
            "step": self.step,
            "epoch": self.position.epoch + 1,
            "loss": total.mean_loss(),
            "nll": total.mean_nll(),
            "lr": learning_rate(self.train, self.step),
            "tokens_per_second": round(speed),
        }
        self.reporter.record(record)
        self.reporter.say(describe_step(record, self.pace.seconds_left(self.train.max_steps - self.step)))

    def _validate(self) -> None:
        self._record_gradients()
        self.model.eval()
        show = self.reporter.validating
        with self._averaged():
            total, normalised = validation_loss(
                self.model, self.valid, self.train.label_smoothing, self.objective.precision, self.ranks, show
            )
        loss, nll = total.mean_loss(), total.mean_nll()
        if not math.isfinite(loss):
            raise self._divergence("the validation loss is not finite")
        record: dict[str, Any] = {"kind": "valid", "step": self.step, "loss": loss, "nll": nll}
        record["perplexity"] = perplexity(nll)
        if normalised is not None:
            record |= {"normalised_nll": normalised, "normalised_perplexity": perplexity(normalised)}
        if self.train.bleu_sentences:
            with self._averaged():
                record["bleu"] = validation_bleu(
                    self.model, self.data, self.recipe.decode, self.train.bleu_sentences, self.ranks, show
                )
        value = -record["bleu"] if self.train.best_by == "bleu" else loss
        self.ranking = sorted([*self.ranking, (value, self.step)])[: self.train.keep_best]
        record["best"] = self.best_steps[0] == self.step
        self.stale_validations = 0 if record["best"] else self.stale_validations + 1
        self.model.train()
        self.reporter.record(record)
        self.reporter.say(describe_validation(record))

    def _due(self, every: Every, new_epoch: bool) -> bool:
        return new_epoch if every == "epoch" else self.step % every == 0

    def _should_stop_early(self) -> bool:
        return self.train.patience is not None and self.stale_validations >= self.train.patience

    @property
    def best_steps(self) -> list[int]:
        """Steps of the best validations, best first."""
        return [step for _, step in self.ranking]

    def _averaged(self) -> AbstractContextManager[None]:
        """Use the moving average of the weights, if enabled, for the duration of the context."""
        return nullcontext() if self.ema is None else self.ema.in_place()

    def _is_asked_to_stop(self) -> bool:
        """Whether a callback requested a stop; after a signal, save and raise.

        Several ranks must agree, so they check only every ten steps.
        """
        if self.ranks.count > 1 and self.step % STOP_EVERY:
            return False
        requests = self.ranks.gather((self.signals, self.reporter.stopped))
        signals = [number for own, _ in requests for number in own]
        if signals:
            if self.saved_step != self.step:
                self.save()
            raise StoppedError(
                f"Stopped at step {self.step} and saved; rerun the same command to resume.", EXIT_CODES[signals[0]]
            )
        return any(stopped for _, stopped in requests)
