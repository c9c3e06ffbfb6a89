"""The loop: step, log, validate, save; stop and resume anywhere, bit-exactly."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import torch

from lamina.base.malloc import trim_heap
from lamina.corpus.batches import Batches, Position, Update
from lamina.corpus.prepared import PreparedData
from lamina.corpus.word_dropout import WordDropout
from lamina.errors import DataError, DivergenceError, StoppedError
from lamina.model.encoders.stack import recompute_layers
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.schema import Every, Recipe
from lamina.store.loading import find_model_folder
from lamina.store.model_folder import assign_weights, load_model_folder
from lamina.store.run import Run
from lamina.training.distributed import Ranks
from lamina.training.ema import MovingAverage
from lamina.training.growing import prepare_growth
from lamina.training.objective import Objective, Window, encoder_gradient_norms, first_bad_gradient
from lamina.training.reporters import Reporter
from lamina.training.schedule import learning_rate
from lamina.training.validation import validation_bleu

EXIT_CODES = {signal.SIGTERM: 75, signal.SIGINT: 130}


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
        self.scaler = torch.amp.GradScaler(ranks.device.type, enabled=precision == torch.float16)
        self.objective = Objective(self.model, ranks, self.train.label_smoothing, precision, self.train.compile)
        self.batches = Batches(
            data.split("train", verify=True),
            self.train.batch_tokens,
            accumulate=self.train.accumulate,
            ranks=ranks.count,
            rank=ranks.rank,
            seed=self.train.seed,
            start_id=recipe.model.start_id,
            edit_weight=self.train.edit_weight,
            word_dropout=WordDropout(data.text, self.train.source_word_dropout, self.train.seed)
            if self.train.source_word_dropout
            else None,
        )
        self.valid = Batches(data.split("valid", verify=True), self.train.batch_tokens, start_id=recipe.model.start_id)
        torch.manual_seed(self.train.seed * 1_000_003 + ranks.rank)  # ranks drop differently
        self.step, self.position, self.window = 0, Position(), Window()
        self.ranking: list[tuple[float, int]] = []  # the best validations so far: value and step, best first
        self.stale_validations = 0
        self.stop_signal: int | None = None

    def fit(self) -> None:
        """Train to the end, from the newest checkpoint if there is one."""
        self._describe()
        self.resume()
        self.model.train()
        seconds, tokens = 0.0, 0
        with self._catching_signals():
            for update, position in self.batches.iterate(self.position):
                if self.step >= self.train.max_steps or self._should_stop_early():
                    break
                started = time.perf_counter()
                self.update(update)
                seconds += time.perf_counter() - started
                self.step, tokens = self.step + 1, tokens + update.tokens
                new_epoch = position.epoch > self.position.epoch
                self.position = position
                speed = tokens / seconds
                self.reporter.progress(self.step, self.train.max_steps, self.window.mean_loss(), speed)
                if self.step % self.train.log_every == 0:
                    self._log(speed)
                    seconds, tokens = 0.0, 0
                if self._due(self.train.validate_every, new_epoch) or self.step == self.train.max_steps:
                    self._validate()
                ended = self.step == self.train.max_steps
                if self._due(self.train.save_every, new_epoch) or ended or self.step in self.best_steps:
                    self.save()
                self._stop_if_requested()
        self.finish()

    def _describe(self) -> None:
        model, parameters = self.recipe.model, sum(parameter.numel() for parameter in self.model.parameters())
        sockets = f"{model.encoder.type} × {model.bridge.type} × {model.head.type}"
        self.reporter.say(
            f"{self.recipe.name}: {sockets}, {parameters:,} parameters, {len(self.batches.split):,} pairs, "
            f"{self.train.max_steps:,} steps on {self.ranks.count} × {self.ranks.device.type}"
        )
        oversized = len(self.batches.oversized())
        if oversized:
            self.reporter.say(f"{oversized:,} pairs exceed train.batch_tokens; each forms its own batch.")

    def resume(self) -> None:
        """Continue from the newest checkpoint that is whole."""
        if self.ranks.first:
            self.run.checkpoints.clear_partial()
        for step, damage in self.run.checkpoints.latest():
            if damage is None:
                self._restore(step)
                self.reporter.say(f"Resumed from step {step}.")
                return
            self.reporter.say(f"{damage}; trying the checkpoint before it.")
        if self.run.checkpoints.steps() or (self.run.folder / "model").exists():
            raise DataError(
                f"{self.run.folder}: has been trained, but has no usable checkpoint to resume from. Restore "
                f"{self.run.checkpoints.folder}, or choose another --out to start from the beginning."
            )
        if self.ranks.first:
            self.run.metrics.write_bytes(b"")

    def save(self) -> None:
        """Write everything that the next step depends on."""
        own = {"random": torch.get_rng_state(), "window": asdict(self.window)}
        if self.ranks.device.type == "cuda":
            own["cuda_random"] = torch.cuda.get_rng_state(self.ranks.device)
        every_rank = self.ranks.gather(own)
        if not self.ranks.first:
            return
        state = {
            "step": self.step,
            "position": asdict(self.position),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "ranks": every_rank,
            "ranking": self.ranking,
            "stale_validations": self.stale_validations,
            "metrics_bytes": self.run.metrics.stat().st_size,
        }
        if self.ema is not None:  # the average takes the weights' place in the checkpoint
            state["weights"] = {name: weight.detach() for name, weight in self.model.named_parameters()}
        best = self.best_steps[:1] == [self.step]
        with self._averaged():
            self.run.checkpoints.save(self.step, self.model, self.data.text, self.recipe.decode, state)
            if best or not self.ranking:
                self._write_model(self.step)
        if best:
            self.run.checkpoints.set_pointer("best", self.step)
        self.run.checkpoints.prune(self.train.keep_last, set(self.best_steps))

    def finish(self) -> None:
        """Save if the last step is not, and write `model/` from the best checkpoint, else the last."""
        if self.step not in self.run.checkpoints.steps():
            self.save()
        if self.ranks.first:
            best = self.run.checkpoints.pointer("best")
            chosen = best if best is not None else self.step
            self.run.checkpoints.load_weights(chosen, self.model)
            self._write_model(chosen)
            self.reporter.say(
                f"Done at step {self.step}. The model of step {chosen} is in {self.run.folder / 'model'}."
            )

    def _write_model(self, step: int) -> None:
        origin = f"Step {step} of the run `{self.recipe.name}`."
        self.run.write_model(self.model, self.data.text, self.recipe.decode, origin)

    def _restore(self, step: int) -> None:
        state = self.run.checkpoints.load_state(step)
        self.run.checkpoints.load_weights(step, self.model)
        if self.ema is not None:
            self.ema.load(dict(self.model.named_parameters()))
            assign_weights(self.model, state["weights"], str(self.run.checkpoints.path(step)))
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        own = state["ranks"][self.ranks.rank]
        torch.set_rng_state(own["random"])
        if "cuda_random" in own:
            torch.cuda.set_rng_state(own["cuda_random"], self.ranks.device)
        self.step, self.position, self.window = state["step"], Position(**state["position"]), Window(**own["window"])
        self.ranking, self.stale_validations = state["ranking"], state["stale_validations"]
        if self.ranks.first:
            with self.run.metrics.open("r+b") as records:  # what came after the checkpoint will come again
                records.truncate(state["metrics_bytes"])

    def update(self, update: Update) -> None:
        """One optimizer step."""
        rate = learning_rate(self.train, self.step + 1)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        self.objective.backward(update, self.scaler, self.window)
        self.scaler.unscale_(self.optimizer)
        if self.train.encoder_l2 is not None:
            for parameter in self.model.encoder.parameters():
                if parameter.dim() > 1 and parameter.grad is not None:
                    parameter.grad.add_(parameter.detach(), alpha=self.train.encoder_l2)
        due = (self.step + 1) % self.train.gradients_every == 0
        norms = encoder_gradient_norms(self.model) if due else []
        limit = math.inf if self.train.clip_norm is None else self.train.clip_norm
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit))
        if not math.isfinite(norm) and not self.scaler.is_enabled():
            self._diverged()
        if due:
            self.reporter.record({"kind": "gradients", "step": self.step + 1, "encoder": norms})
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.ema is not None:
            self.ema.update()

    def _diverged(self) -> None:
        last = self.run.checkpoints.pointer("last")
        path = None if last is None else self.run.checkpoints.path(last)
        where = "no checkpoint was written" if path is None else f"the last good checkpoint is {path}"
        first = first_bad_gradient(self.model)
        raise DivergenceError(
            f"Training diverged at step {self.step + 1}: the gradient of {first} is not finite; {where}. "
            "Try a lower train.lr, a longer train.warmup or train.clip_norm."
        )

    def _log(self, speed: float) -> None:
        windows = self.ranks.gather(self.window)
        self.window = Window()
        total = Window.sum(windows)
        loss, nll = total.mean_loss(), total.mean_nll()
        rate = learning_rate(self.train, self.step)
        epoch = self.position.epoch
        record = {"kind": "train", "step": self.step, "epoch": epoch, "loss": loss, "nll": nll, "lr": rate}
        self.reporter.record({**record, "tokens_per_second": round(speed)})
        progress = f"step {self.step}  epoch {epoch + 1}  loss {loss:.4f}  nll {nll:.4f}  ppl {exp(nll):.2f}"
        self.reporter.say(f"{progress}  lr {rate:.2e}  {speed:,.0f} tok/s")

    def _validate(self) -> None:
        self.model.eval()
        own, normalised_nll = Window(), 0.0
        updates = self.valid.updates(0)
        with torch.no_grad(), self._averaged():
            for number in range(self.ranks.rank, len(updates), self.ranks.count):
                for batch in self.valid.load(updates[number]).batches:
                    arrays = (batch.source, batch.prefix, batch.target)
                    tensors = [torch.as_tensor(array, device=self.ranks.device) for array in arrays]
                    own.add(self.model(*tensors, self.train.label_smoothing))
                    if not self.model.head.normalised:
                        normalised_nll += float(self.model.normalised_nll(*tensors).sum())
        total = Window.sum(self.ranks.gather(own))
        loss, nll = total.mean_loss(), total.mean_nll()
        record: dict[str, Any] = {"kind": "valid", "step": self.step, "loss": loss, "nll": nll, "perplexity": exp(nll)}
        shown = f"nll {nll:.4f}  ppl {exp(nll):.2f}"
        if not self.model.head.normalised:  # mass below 1: only the renormalised one compares with other systems
            record["normalised_nll"] = sum(self.ranks.gather(normalised_nll)) / total.tokens
            record["normalised_perplexity"] = exp(record["normalised_nll"])
            shown += f" (normalised {record['normalised_perplexity']:.2f})"
        if self.train.bleu_sentences:
            with self._averaged():
                record["bleu"] = validation_bleu(
                    self.model, self.data, self.recipe.decode, self.train.bleu_sentences, self.ranks
                )
            shown += f"  bleu {record['bleu']:.2f}"
        value = -record["bleu"] if self.train.best_by == "bleu" else loss
        self.ranking = sorted([*self.ranking, (value, self.step)])[: self.train.keep_best]
        self.stale_validations = 0 if self.best_steps[0] == self.step else self.stale_validations + 1
        self.model.train()
        self.reporter.record(record)
        best = "" if self.stale_validations else "  best"
        self.reporter.say(f"step {self.step}  valid loss {loss:.4f}  {shown}{best}")

    def _due(self, every: Every, new_epoch: bool) -> bool:
        return new_epoch if every == "epoch" else self.step % every == 0

    def _should_stop_early(self) -> bool:
        return self.train.patience is not None and self.stale_validations >= self.train.patience

    @property
    def best_steps(self) -> list[int]:
        """Steps of the best validations, best first."""
        return [step for _, step in self.ranking]

    def _averaged(self) -> AbstractContextManager[None]:
        """Within the context the model is the one that would be used: the moving average, if there is one."""
        return nullcontext() if self.ema is None else self.ema.in_place()

    @contextmanager
    def _catching_signals(self) -> Iterator[None]:
        """Let SIGTERM and Ctrl-C stop training after the current step."""

        def ask(number: int, frame: FrameType | None) -> None:
            self.stop_signal = number

        before = {number: signal.signal(number, ask) for number in EXIT_CODES}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop_if_requested(self) -> None:
        asked = [number for number in self.ranks.gather(self.stop_signal) if number is not None]
        if not asked:
            return
        if self.step not in self.run.checkpoints.steps():
            self.save()
        raise StoppedError(
            f"Stopped at step {self.step} and saved; rerun the same command to resume.", EXIT_CODES[asked[0]]
        )


def start_from(folder: Path, model: Seq2Seq, data: PreparedData) -> None:
    """Copy another model's weights; its text must be segmented as the data is."""
    folder = find_model_folder(folder)
    loaded = load_model_folder(folder)
    for side in ("source", "target"):
        if getattr(loaded.text, side).vocabulary != getattr(data.text, side).vocabulary:
            raise DataError(
                f"{folder}: its {side} vocabulary differs from that of {data.folder}. Prepare the data with "
                f"`--text-from {folder}`."
            )
    assign_weights(model, dict(loaded.model.named_parameters()), str(folder))


def choose_precision(name: Literal["auto", "fp32", "bf16", "fp16"], device: torch.device) -> torch.dtype | None:
    """What products are computed in; None is full precision. `auto` is 16 bits on a GPU."""
    if name == "auto":
        if device.type != "cuda":
            return None
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[name]


def exp(nll: float) -> float:
    """Perplexity, infinite rather than an error."""
    return math.exp(nll) if nll < 700 else math.inf
