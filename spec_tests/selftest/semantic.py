"""Mutants written by hand: each is wrong in a way that matters, and names the clause that sees it.

Each row: the clause, what is wrong, the file, the text that stands there, what stands instead.
"""

SEMANTIC = [
    ('VAL-001', "validation runs after on_train_epoch_end's place: not at the last batch",
     'trainer.py', '            return self.is_last_batch  # also',
     '            return False  # also'),
    ('FIT-030', "a callback's -1 skips the epoch", 'dispatch.py',
     '        return answer if answers else None',
     '        return answer'),
    ('FIT-024', '-1 is ignored', 'trainer.py',
     '== -1  # FIT-024',
     '== -2  # FIT-024'),
    ('FIT-026', '-1 still validates', 'trainer.py',
     '                progress.total_batches += 1\n'
     '                break',
     '                progress.total_batches += 1\n'
     '                progress.pending, self.is_last_batch = "validation", True\n'
     '                self._finish_batch()\n'
     '                break'),
    ('FIT-028', 'epoch schedulers do not step after -1', 'trainer.py',
     '        if skipped:\n'
     '            self._step_schedulers("epoch")',
     '        if skipped:\n'
     '            pass'),
    ('OPT-024', 'the last partial window does not step', 'trainer.py',
     'self.accumulate_grad_batches == 0 or self.is_last_batch',
     'self.accumulate_grad_batches == 0'),
    ('OPT-027', 'the loss is not divided by the window', 'trainer.py',
     'loss = loss / window if window > 1 else loss',
     'loss = loss'),
    ('OPT-021', "the last window's loss is divided by its own size", 'trainer.py',
     'loss = loss / window if window > 1 else loss',
     'loss = loss / (batch_idx % window + 1 if self.is_last_batch else window)'),
    ('OPT-020', 'gradients are cleared on every batch', 'trainer.py',
     'if batch_idx % window == 0:',
     'if True:'),
    ('OPT-020', 'gradients are cleared at the end of a window', 'trainer.py',
     'if batch_idx % window == 0:',
     'if (batch_idx + 1) % window == 0:'),
    ('OPT-006', 'zeroing comes after the backward pass', 'trainer.py',
     '                on.on_after_backward()\n'
     '            return loss\n'
     '\n'
     '        if self._stepped:',
     '                on.on_after_backward()\n'
     '                on.optimizer_zero_grad(self.current_epoch, batch_idx, own)\n'
     '            return loss\n'
     '\n'
     '        if self._stepped:'),
    ('FIT-020', 'the output keeps its graph', 'trainer.py',
     '{"loss": loss.detach(), **extras}',
     '{"loss": loss, **extras}'),
    ('OPT-033', 'extra outputs are lost', 'trainer.py',
     '{"loss": loss.detach(), **extras}',
     '{"loss": loss.detach()}'),
    ('OPT-020', 'the optimizer steps on every batch of a window', 'trainer.py',
     '        self._stepped = self._steps(batch_idx)\n',
     '        self._stepped = True\n'),
    ('OPT-001', 'clipping comes before on_before_optimizer_step', 'trainer.py',
     '            on.on_before_optimizer_step(optimizer)\n'
     '            if automatic:\n'
     '                on.configure_gradient_clipping(\n'
     '                    optimizer, self.gradient_clip_val, self.gradient_clip_algorithm\n'
     '                )\n',
     '            if automatic:\n'
     '                on.configure_gradient_clipping(\n'
     '                    optimizer, self.gradient_clip_val, self.gradient_clip_algorithm\n'
     '                )\n'
     '            on.on_before_optimizer_step(optimizer)\n'),
    ('OPT-040', 'manual optimization clips', 'trainer.py',
     '            if automatic:\n'
     '                on.configure',
     '            if True:\n'
     '                on.configure'),
    ('OPT-041', 'manual steps do not count', 'trainer.py',
     'self.global_step += not automatic',
     'self.global_step += 0'),
    ('OPT-023', 'automatic steps count twice', 'trainer.py',
     'self.global_step += not automatic',
     'self.global_step += 1'),
    ('OPT-104', 'a step that AMP leaves out counts', 'trainer.py',
     'self.global_step += not precision.skipped  # also',
     'self.global_step += 1  # also'),
    ('OPT-001', 'on_before_optimizer_step comes before the closure', 'trainer.py',
     '            loss = closure()\n'
     '            if precision.scaler is not None:\n'
     '                precision.unscale(optimizer)\n'
     '            on.on_before_optimizer_step(optimizer)\n',
     '            on.on_before_optimizer_step(optimizer)\n'
     '            loss = closure()\n'),
    ('OPT-051', "the other optimizers' parameters are not frozen", 'trainer.py',
     '        module.toggle_optimizer(optimizer)\n',
     ""),
    ('OPT-051', 'parameters stay frozen', 'trainer.py',
     '        module.untoggle_optimizer(optimizer)\n',
     ""),
    ('OPT-064', 'step schedulers step on every batch of a window', 'trainer.py',
     '(not self._stepped or self.precision_plugin.skipped)',
     'self.precision_plugin.skipped'),
    ('OPT-067', 'schedulers step in manual optimization', 'trainer.py',
     '        if not self.lightning_module.automatic_optimization:\n'
     '            return\n'
     '        if interval',
     '        if interval'),
    ('OPT-063', 'the frequency of a scheduler is ignored', 'trainer.py',
     '            if count % config.frequency:\n'
     '                continue\n',
     ""),
    ('OPT-063', 'epoch schedulers count from 0', 'trainer.py',
     'else self.current_epoch + 1\n'
     '        for config',
     'else self.current_epoch\n'
     '        for config'),
    ('OPT-074', 'plateau schedulers step on an unfinished epoch', 'trainer.py',
     '        if complete:\n'
     '            self._step_schedulers("epoch", plateau=True)',
     '        if True:\n'
     '            self._step_schedulers("epoch", plateau=True)'),
    ('OPT-060', 'epoch schedulers step at every batch', 'trainer.py',
     '                if self.is_last_batch:  # OPT-060\n',
     '                if True:\n'),
    ('FIT-031', 'max_steps stops one step late', 'trainer.py',
     '        if self.global_step >= self.max_steps != -1:\n'
     '            return True\n'
     '        return self.should_stop',
     '        if self.global_step > self.max_steps != -1:\n'
     '            return True\n'
     '        return self.should_stop'),
    ('FIT-036', 'should_stop stops before min_epochs', 'trainer.py',
     'self._progress.epochs >= (self.min_epochs or 0)',
     'True'),
    ('FIT-037', 'should_stop stops before min_steps', 'trainer.py',
     'return enough_epochs and self.global_step >= (self.min_steps or 0)',
     'return enough_epochs'),
    ('FIT-034', 'should_stop waits for the end of the epoch', 'trainer.py',
     '            return True\n'
     '        return self.should_stop and self._may_stop()\n'
     '\n'
     '    def _epoch_validates',
     '            return True\n'
     '        return False\n'
     '\n'
     '    def _epoch_validates'),
    ('FIT-034', 'a stop request skips the validation', 'trainer.py',
     '        if self.should_stop and self._may_stop():\n'
     '            return True\n'
     '        over_epochs',
     '        over_epochs'),
    ('VAL-021', 'validation is counted from epoch 0', 'trainer.py',
     '(self.current_epoch + 1) % every == 0)',
     'self.current_epoch % every == 0)'),
    ('VAL-022', 'val_check_interval counts over epochs', 'trainer.py',
     'if over_epochs else self._progress.batches\n',
     'if True else self._progress.batches\n'),
    ('VAL-023', 'val_check_interval over epochs counts per epoch', 'trainer.py',
     'self._progress.total_batches if over_epochs else',
     'self._progress.batches if over_epochs else'),
    ('FIT-016', 'the sanity check leaves the random state changed', 'trainer.py',
     '        set_rng_state(before)\n',
     ''),
    ('LOG-009', 'the sanity check leaves its metrics', 'trainer.py',
     '        self._metrics.clear()\n'
     '        set_rng',
     '        set_rng'),
    ('FIT-015', 'the sanity check runs with gradients', 'trainer.py',
     '        with torch.no_grad():\n'
     '            self._evaluate("validation")\n'
     '        self.on.on_sanity_check_end()',
     '        with torch.enable_grad():\n'
     '            self._evaluate("validation")\n'
     '        self.on.on_sanity_check_end()'),
    ('FIT-014', 'the sanity check runs all batches', 'loading.py',
     '        limits = trainer.num_sanity_val_batches\n',
     '        pass\n'),
    ('VAL-018', 'the stage stays validating after a validation', 'trainer.py',
     '            self._evaluate("validation")\n'
     '        self.state.stage = RunningStage.TRAINING\n'
     '\n'
     '    def _evaluation',
     '            self._evaluate("validation")\n'
     '\n'
     '    def _evaluation'),
    ('VAL-006', 'fit validates in inference mode', 'trainer.py',
     '            self.on.on_validation_model_zero_grad()\n'
     '        with torch.no_grad():',
     '            self.on.on_validation_model_zero_grad()\n'
     '        with torch.inference_mode():'),
    ('VAL-008', 'validate runs under no_grad', 'trainer.py',
     'return torch.inference_mode() if fast else',
     'return torch.no_grad() if fast else'),
    ('VAL-009', 'inference_mode=False is ignored', 'trainer.py',
     'if fast else torch.no_grad()',
     'if True else torch.no_grad()'),
    ('VAL-004', 'gradients of an open window are released', 'trainer.py',
     '        if self._stepped:  # gradients',
     '        if True:  # gradients'),
    ('VAL-017', 'after validation everything is in train mode', 'trainer.py',
     '            module.training = training\n',
     '            module.training = True\n'),
    ('TEST-008', 'after validation everything stays in eval mode', 'trainer.py',
     '            module.training = training\n',
     '            pass\n'),
    ('VAL-018', 'on_validation_model_train restores the modes too', 'trainer.py',
     '            getattr(self.on, own)()\n'
     '            return\n',
     '            getattr(self.on, own)()\n'),
    ('VAL-010', 'dataloader_idx comes with one loader', 'trainer.py',
     '            which = (dataloader_idx,) if len(loaders) > 1 else ()\n'
     '            kept',
     '            which = (dataloader_idx,)\n'
     '            kept'),
    ('VAL-012', 'every loader is transferred as the first', 'trainer.py',
     'batch = self._transfer(batch, dataloader_idx)\n'
     '                metrics.batch, metrics.alike',
     'batch = self._transfer(batch, 0)\n'
     '                metrics.batch, metrics.alike'),
    ('DATA-010', "the transfer's last hook is ignored", 'trainer.py',
     '        return on.on_after_batch_transfer(batch, dataloader_idx)',
     '        on.on_after_batch_transfer(batch, dataloader_idx)\n'
     '        return batch'),
    ('PREDICT-007', 'predict never returns lists per loader', 'trainer.py',
     '        return predictions if len(loaders) > 1 else predictions[0]',
     '        return predictions[0]'),
    ('PREDICT-006', 'predict of one loader is nested', 'trainer.py',
     '        return predictions if len(loaders) > 1 else predictions[0]',
     '        return predictions'),
    ('PREDICT-008', 'return_predictions=False returns them', 'trainer.py',
     '        if not keeps:\n'
     '            return None\n'
     '        return predictions if',
     '        return predictions if'),
    ('FIT-093', 'Ctrl-C is raised', 'trainer.py',
     '            warn(f"`Trainer.{fn.value}` was interrupted',
     '            raise\n'
     '            warn(f"`Trainer.{fn.value}` was interrupted'),
    ('FIT-090', 'errors are swallowed', 'trainer.py',
     '        except BaseException as error:\n'
     '            self._fail(error)\n'
     '            raise',
     '        except BaseException as error:\n'
     '            self._fail(error)\n'
     '            return None'),
    ('CB-054', 'an error in on_exception stops the others', 'trainer.py',
     '                later.append(another)',
     '                raise'),
    ('FIT-092', 'the status is not interrupted', 'trainer.py',
     '        self.state.status = TrainerStatus.INTERRUPTED\n',
     ""),
    ('CB-057', 'on_keyboard_interrupt comes after on_exception', 'trainer.py',
     'told.insert(0, ("on_keyboard_interrupt", ()))',
     'told.append(("on_keyboard_interrupt", ()))'),
    ('CB-049', 'teardown runs after an error', 'trainer.py',
     '            self._fail(error)\n'
     '            raise',
     '            self._fail(error)\n'
     '            self._tear_down()\n'
     '            raise'),
    ('DATA-001', 'the second process prepares the data', 'strategies.py',
     'self.global_rank) == 0',
     'self.global_rank) == 1'),
    ('DATA-001', 'setup comes before prepare_data', 'trainer.py',
     '        on.prepare_data()\n'
     '        self.strategy.wait_for_data()\n'
     '        on.on_before_accelerator_backend_setup()\n'
     '        self.strategy.connect()\n'
     '        startup.agree_on_versions(self)\n'
     '        on.setup(stage)\n',
     '        on.setup(stage)\n'
     '        on.prepare_data()\n'
     '        on.on_before_accelerator_backend_setup()\n'),
    ('CB-008', "on_configure_sharded_model comes after the module's hook", 'trainer.py',
     '        on.on_configure_sharded_model()\n'
     '        with self.precision_plugin.creating(), self.strategy.root_device:\n'
     '            on.configure_sharded_model()\n',
     '        with self.precision_plugin.creating(), self.strategy.root_device:\n'
     '            on.configure_sharded_model()\n'
     '            on.on_configure_sharded_model()\n'),
    ('FIT-004', 'weights are restored before configure_model', 'trainer.py',
     '        on.configure_model()\n'
     '        self._checkpoint = {}\n',
     '        self._checkpoint = {}\n'),
    ('CB-010', 'on_fit_start comes before configure_optimizers', 'trainer.py',
     '        self._configure_optimizers()\n'
     '        on.on_fit_start()  # FIT-002\n',
     '        on.on_fit_start()\n'
     '        self._configure_optimizers()\n'),
    ('FIT-009', 'current_epoch moves on before on_train_epoch_end', 'trainer.py',
     '        on.on_train_epoch_end()\n',
     '        self.current_epoch = progress.epochs\n'
     '        on.on_train_epoch_end()\n'),
    ('FIT-042', 'a second fit starts again', 'trainer.py',
     '        self._progress.batches, self._progress.pending = 0, "fit',
     '        self._progress.epochs, self._progress.pending = 0, "fit'),
    ('FIT-041', 'on_train_start comes though nothing is to be trained', 'trainer.py',
     '        if resume.is_over(self):\n'
     '            return\n',
     '        if resume.is_over(self):\n'
     '            on.on_train_start()\n'
     '            return\n'),
    ('DATA-011', 'the training loader is asked for before the sanity check', 'trainer.py',
     '        self._sanity_check()\n'
     '        self._train()\n',
     '        loading.load_train_data(self)\n'
     '        self._sanity_check()\n'
     '        self._train()\n'),
    ('DATA-012', 'limit_train_batches=0 still asks for the loader', 'trainer.py',
     '        if self.limit_train_batches == 0:\n'
     '            return\n',
     ""),
    ('CB-102', "callbacks' modules: monitors go first in on_train_epoch_end", 'dispatch.py',
     '"C M K", "outputs"',
     '"K C M", "outputs"'),
    ('LOG-006', 'means are not weighted by batch size', 'metrics.py',
     '            value = value * batch_size\n',
     '            value = value * batch_size\n'
     '            batch_size = 1\n'),
    ('LOG-008', 'sums are weighted by batch size', 'metrics.py',
     'if self.reduce_fx == "mean":\n'
     '            value',
     'if self.reduce_fx in ("mean", "sum"):\n'
     '            value'),
    ('LOG-008', 'min is max', 'metrics.py',
     '"min": torch.minimum',
     '"min": torch.maximum'),
    ('LOG-015', 'logged values keep their graph', 'metrics.py',
     '        value = value.detach()\n',
     ""),
    ('LOG-003', 'epoch metrics have no suffix', 'metrics.py',
     'else "_epoch"',
     'else ""'),
    ('LOG-012', 'any hook may log', 'metrics.py',
     'if entries is None or hook not in LOGGING:',
     'if False:'),
    ('CKPT-022', 'state keyed by class', 'checkpoint.py',
     '{c.state_key: c.state_dict() for',
     '{type(c).__name__: c.state_dict() for'),
    ('CKPT-045', "the module's on_load_checkpoint is not called", 'checkpoint.py',
     '        if receiver is module:\n'
     '            _noted(',
     '        if False:\n'
     '            _noted('),
    ('CKPT-046', 'optimizer states are not restored', 'checkpoint.py',
     '            load(owner, state)\n',
     '            pass\n'),
    ('CKPT-052', 'global_step is not restored', 'checkpoint.py',
     'trainer.global_step, trainer.current_epoch = checkpoint["global_step"], checkpoint["epoch"]',
     'trainer.current_epoch = checkpoint["epoch"]'),
    ('CKPT-032', 'two state keys may clash', 'checkpoint.py',
     '        if other is not callback:',
     '        if False:'),
    ('CKPT-071', 'files may run code', 'storage.py',
     'weights_only=safely',
     'weights_only=False'),
    ('CB-076', 'optional parameters get the older extra whatever their name', 'signatures.py',
     'or beyond[0] in extra_names)',
     'or True)'),
    ('CB-084', 'names are taken for places', 'signatures.py',
     '        if taken in place and taken != name:',
     '        if False:'),
    ('CKPT-026', "1.1's on_load_checkpoint gets the trainer", 'signatures.py',
     'return [p.kind for p in parameters] == [inspect',
     'return [p.kind for p in parameters] == [[inspect]] and [inspect'),
    ('CB-070', 'opt_idx is always 0', 'signatures.py',
     'trainer.optimizers.index(args[0])',
     '0'),
    ('CB-089', 'overrides on instances are not seen', 'signatures.py',
     '    if own is not None:\n'
     '        return True\n',
     ""),
    ('CB-105', 'a callback added during a run is ignored', 'dispatch.py',
     '        self.changed()\n',
     ""),
    ('CB-086', 'misspelt hooks are accepted', 'names.py',
     '    if distance <= 2:',
     '    if distance <= -1:'),
    ('DATA-007', "the data module's transfer hooks are not used", 'dispatch.py',
     'owner = datamodule if overrides(datamodule, hook) else module',
     'owner = module'),
    ('DATA-015', 'shorter loaders are not started again', 'batches.py',
     '                self._start_again(i)\n',
     '                self.ended = [True] * len(self.ended)\n'),
    ('DATA-018', 'the end of a stream is not known', 'batches.py',
     'yield batch, ahead is _NOTHING',
     'yield batch, False'),
    ('DATA-017', 'tiny shares of batches are accepted', 'data.py',
     '    if batches == 0:\n'
     '        raise',
     '    if False:\n'
     '        raise'),
    ('DATA-026', 'overfit_batches shuffles', 'loading.py',
     '    if trainer.overfit_batches:',
     '    if False:'),
    ('DATA-022', 'containers are not moved', 'data.py',
     '    return map_nested(move_data_to_device, batch, device)',
     '    return batch'),
    ('VAL-013', 'results have no dataloader suffix', 'metrics.py',
     'f"/dataloader_idx_{self.dataloader_idx}" if several else ""',
     '""'),
    ('OPT-072', 'ReduceLROnPlateau without its metric is skipped', 'optimizers.py',
     '    if config.strict:\n',
     '    if False:\n'),
    ('OPT-053', 'two optimizers need not be told apart', 'startup.py',
     '    if "optimizer_idx" not in',
     '    if False and "optimizer_idx" not in'),
    ('CB-095', 'configured callbacks join without replacing', 'startup.py',
     'if not any(isinstance(each, type(old)) for each in new)]',
     'if True]'),
    ('CB-101', 'checkpoint callbacks keep their place', 'startup.py',
     '    callbacks.sort(key=lambda callback: isinstance(callback, ModelCheckpoint))\n',
     ""),
    # Callbacks, metrics, loggers, and the sweep of the learning rate.
    ('CB-119', 'min_delta is ignored', 'monitors.py',
     'if is_better(current - self.min_delta, best):', 'if is_better(current, best):'),
    ('CB-116', 'patience is one more', 'monitors.py',
     'if self.wait_count < self.patience:', 'if self.wait_count <= self.patience:'),
    ('CB-122', 'check_finite is ignored', 'monitors.py',
     'if self.check_finite and not torch.isfinite(current):', 'if False:'),
    ('CB-126', 'divergence_threshold looks the wrong way', 'monitors.py',
     'is_better(-current, -limit)', 'is_better(current, limit)'),
    ('CB-156', 'check_on_train_epoch_end is overruled', 'monitors.py',
     '        if self._check_on_train_epoch_end is None:\n', '        if True:\n'),
    ('CB-194', 'verbose is ignored', 'monitors.py',
     'if reason and self.verbose:', 'if reason:'),
    ('CB-136', 'NaN is a score as any', 'monitors.py',
     'if current.isnan():', 'if False:'),
    ('CB-141', 'enable_version_counter is ignored', 'monitors.py',
     'while self.enable_version_counter and path', 'while path'),
    ('CB-160', 'names are put into file names anyway', 'monitors.py',
     'if auto_insert_metric_name else ""', 'if True else ""'),
    ('CB-165', 'save_weights_only is ignored', 'monitors.py',
     'trainer.save_checkpoint(filepath, self.save_weights_only)',
     'trainer.save_checkpoint(filepath)'),
    ('CB-170', "the scheduler's own interval is ignored", 'learning_rate.py',
     'own_interval in (None, interval)', 'True'),
    ('CB-171', 'the momentum is the rate', 'learning_rate.py',
     'group.get("momentum", 0)', 'group.get("lr", 0)'),
    ('CB-173', 'any key is an epoch', 'learning_rate.py',
     '_check("an epoch", scheduling, 0)', 'scheduling'),
    ('CB-178', 'a Timer looks at the end of the epoch only', 'timer.py',
     'if self._interval == "step":', 'if False:'),
    ('CB-180', 'the depth of a summary is ignored', 'summary.py',
     'max_depth == -1 or name.count(".") < max_depth', 'name.count(".") < 1'),
    ('CB-184', 'the sweep ends before max_lr', 'tuning.py',
     '(step + 1) / self.num_training if step else 0.0', 'step / self.num_training'),
    ('CB-187', 'a sweep does not end when the loss explodes', 'tuning.py',
     'return not math.isfinite(loss) or loss > limit', 'return False'),
    ('CB-188', 'a sweep leaves its weights', 'tuning.py',
     'tensor.copy_(value)', 'pass'),
    ('CB-189', 'a sweep leaves its random numbers', 'tuning.py',
     '        set_rng_state(rng)', '        rng'),
    ('CB-183', "a sweep calls the trainer's callbacks", 'tuning.py',
     'trainer.callbacks = [sweep]', 'trainer.callbacks = [*trainer.callbacks, sweep]'),
    ('CB-185', 'the suggestion is where the loss rises', 'tuning.py',
     'slopes.argmin()', 'slopes.argmax()'),
    ('LOG-022', 'logger=False is ignored', 'metrics.py',
     'if entry.logger:', 'if True:'),
    ('LOG-045', 'the number of the epoch is a float', 'reporting.py',
     '("epoch", trainer.current_epoch)', '("epoch", float(trainer.current_epoch))'),
    ('LOG-034', 'a prefix is forgotten', 'loggers.py',
     'row[self._prefix + name]', 'row[name]'),
    ('LOG-035', 'rows wait for the end of the run', 'loggers.py',
     'if abs(step + 1 - self._saved_step) >= self._every:', 'if False:'),
    ('LOG-036', 'a new column costs the rows above', 'loggers.py',
     'new.writelines(_whole_lines(file)[1:] if file.exists() else ())', 'pass'),
    ('LOG-044', 'after an error only the first logger is finalized', 'trainer.py',
     '("finalize", logger.finalize, ("failed",)) for logger in self.loggers]',
     '("finalize", logger.finalize, ("failed",)) for logger in self.loggers[:1]]'),
    ('CKPT-020', "what a callback's on_save_checkpoint returns is lost", 'checkpoint.py',
     '                checkpoint["callbacks"][receiver.state_key] = state\n',
     '                pass\n'),
    ('CKPT-075', 'a checkpoint is written in place', 'storage.py',
     '        beside = path.parent / f".{path.name}.{_me()}.tmp"\n',
     '        beside = path\n'),
    ('CKPT-074', 'a failed save leaves its half beside', 'storage.py',
     '            beside.unlink(missing_ok=True)\n'
     '        _sync',
     '            pass\n'
     '        _sync'),
]

# Generated mutants that nothing can tell from the original: {why: names}.
_WHYS = {
    "a check that has passed passes again, and does nothing else": [
        "dispatch.py bind: doubled: check_names(receiver, WHO)",
        "trainer.py Trainer._run: doubled: startup.check_model(model, fn.value)",
        "trainer.py Trainer._run: doubled: startup.check_data(loaders, datamodule, fn.value)",
        "trainer.py Trainer._evaluate: doubled: startup.check_several_loaders("
        'self.lightning_module, f"{kind}_step", len(loaders))',
        "trainer.py Trainer._predict: doubled: startup.check_several_loaders("
        'self.lightning_module, "predict_step", len(loaders))',
        "trainer.py Trainer._configure_optimizers: doubled: startup.one_or_idx("
        "module, len(self.optimizers))",
        "trainer.py Trainer._configure_optimizers: doubled: self.precision_plugin.check("
        "self.optimizers)",
    ],
    "the second call finds the work of the first done: attributes get the values they have": [
        "dispatch.py bind: doubled: on.__dict__.setdefault(kind, Bound())",
        "dispatch.py bind: doubled: setattr(on, hook, function)",
        "dispatch.py bind: doubled: setattr(getattr(on, kind), event, function)",
        "dispatch.py : doubled: setattr(CallbackList, _name, _telling(_name))",
        "trainer.py Trainer._run: doubled: self._attach(model, loaders, datamodule)",
        "trainer.py Trainer._run: doubled: self.strategy.begin_run()",
        "trainer.py Trainer._attach: doubled: self._forget_loaders()",
        "trainer.py Trainer._attach: doubled: self._metrics.clear()",
        "trainer.py Trainer._forget_loaders: doubled: resume.forget(self)",
        "trainer.py Trainer._sanity_check: doubled: self._metrics.clear()",
        "trainer.py Trainer.__init__: doubled: "
        'os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")',
        "trainer.py Trainer.__init__: doubled: torch.use_deterministic_algorithms("
        'True, warn_only=deterministic == "warn")',
        "trainer.py Trainer._fit: doubled: set_default_limits(self)",
        "trainer.py Trainer._optimize_alone: doubled: module.toggle_optimizer(optimizer)",
        "trainer.py Trainer._set_up: doubled: self.strategy.connect()",
        "trainer.py Trainer._set_up: doubled: self.precision_plugin.convert_module(module)",
        "trainer.py Trainer._train: doubled: self._metrics.begin(training=True)",
        "trainer.py Trainer._train_epoch: doubled: metrics.begin_batches()",
        "trainer.py Trainer._end_epoch: doubled: metrics.begin(training=True)",
        "trainer.py Trainer._evaluate: doubled: metrics.begin_batches(*which)",
        "trainer.py Trainer._evaluate: doubled: metrics.end(around)",
        "trainer.py Trainer._sanity_check: doubled: set_rng_state(before)",
        'trainer.py Trainer._predict: doubled: self._restore_modes("predict", modes)',
        "trainer.py Trainer._restore_training: doubled: checkpoint.restore_training("
        "self, self._checkpoint)",
    ],
    "loaders that are there, and not due again, are not asked for again": [
        "trainer.py Trainer._train: doubled: loading.load_train_data(self)",
        "trainer.py Trainer._train: doubled: loading.may_load_val_data(self)",
        "trainer.py Trainer._train_epoch: doubled: loading.load_train_data(self)",
    ],
    "where the processes are there it does nothing, and elsewhere it does not come back": [
        "trainer.py Trainer._run: doubled: processes.start_all(self.strategy.processes, fn.value)",
    ],
    "both calls bind the same overrides to the same hooks, and call none": [
        "trainer.py Trainer._set_up: doubled: bind(self, on)",
        "trainer.py Trainer._set_up: doubled: bind(self, on) #2",
        "dispatch.py _telling.method: doubled: self.changed()",
    ],
    "the first call empties what the second would work on": [
        "trainer.py Trainer._fit: doubled: self._restore_training()",
        "trainer.py Trainer._train_epoch: doubled: self._finish_batch()",
        "trainer.py Trainer._train_epoch: doubled: self._finish_batch() #2",
        "trainer.py Trainer._train_epoch: doubled: resume.save_again("
        "self, outputs, batch, batch_idx)",
        "trainer.py Trainer._optimize_alone: doubled: module.untoggle_optimizer(optimizer)",
        "trainer.py Trainer._fail: doubled: release_frames(error)",
        "trainer.py Trainer._train_epoch: doubled: resume.draw_as_saved(self)",
        "trainer.py Trainer._end_epoch: doubled: resume.save_again(self)",
        "trainer.py Trainer._finish_batch: doubled: resume.save_again(self)",
        "trainer.py Trainer._sanity_check: doubled: resume.save_again(self)",
        "trainer.py Trainer._evaluate: doubled: resume.validated(self)",
        "trainer.py Trainer._end_epoch: doubled: self._batches.close(complete)",
        "trainer.py Trainer._fail: doubled: self.strategy.disconnect(error)",
    ],
    "a second meeting, for which all come again": [
        "trainer.py Trainer._set_up: doubled: self.strategy.wait_for_data()",
    ],
    "what all processes have agreed on, or have of the first, they do a second time": [
        "trainer.py Trainer._train: doubled: self._agree_to_stop()",
        "trainer.py Trainer._train_epoch: doubled: self._agree_to_stop()",
        "trainer.py Trainer._finish_batch: doubled: self._agree_to_stop()",
        "trainer.py Trainer._train_batch: doubled: self.strategy.synchronize_buffers("
        "self.lightning_module)",
        "trainer.py Trainer._set_up: doubled: startup.agree_on_versions(self)",
    ],
    "gradients that are None are set to None once more": [
        "trainer.py Trainer._fit: doubled: self.lightning_module.zero_grad()",
        "trainer.py Trainer._evaluation: doubled: self.lightning_module.zero_grad()",
        "trainer.py Trainer._prediction: doubled: self.lightning_module.zero_grad()",
    ],
    "values are read, and written down where they stand already": [
        "trainer.py Trainer._validate: doubled: self._metrics.collect()",
    ],
    "autocast inside the same autocast, or the same default type twice, computes the same": [
        "dispatch.py bind: doubled: trainer.precision_plugin.around_steps(on)",
    ],
    "the first call ends the run by an error": [
        "trainer.py Trainer._train_epoch: doubled: signals.end(self)",
        "trainer.py Trainer._evaluate: doubled: signals.end(self)",
        "trainer.py Trainer._predict: doubled: signals.end(self)",
    ],
    "a sampler keeps the number that it is told; how often it is told is promised nowhere": [
        "trainer.py Trainer._train_epoch: doubled: data.set_epoch(loader, self.current_epoch)",
    ],
    "neither of the two reads what the other writes": [
        "trainer.py Trainer._run: swapped: self._attach(model, loaders, datamodule)",
        "trainer.py Trainer._train: swapped: self._metrics.begin(training=True)",
        "trainer.py Trainer._sanity_check: swapped: self._metrics.clear()",
        "trainer.py Trainer.__init__: swapped: "
        'os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")',
        "trainer.py Trainer._fail: swapped: processes.name_rank(error, self.strategy.processes)",
        "trainer.py Trainer._end_epoch: swapped: reporting.log_metrics("
        "self, to_log, progress.stepping_batches - 1)",
        "trainer.py Trainer._evaluate: swapped: metrics.end_batches()",
        "trainer.py Trainer._evaluate: swapped: outputs_of_loaders.append(kept)",
        "trainer.py Trainer._evaluate: swapped: self._restore_modes(kind, modes)",
    ],
    "restoring calls module, data module and callbacks each at a place of their own": [
        "on_load_checkpoint: receivers reversed",
    ],
    "two checks that do nothing but refuse: where both would, either error is right": [
        "trainer.py Trainer._configure_optimizers: swapped: startup.one_or_idx("
        "module, len(self.optimizers))",
    ],
    "type and device of the weights are independent of each other": [
        "trainer.py Trainer._set_up: swapped: self.precision_plugin.convert_module(module)",
    ],
    "a module that overrides both of the two is refused, see FIT-006": [
        "trainer.py Trainer._set_up: swapped: on.configure_sharded_model()",
    ],
    "a logger is told of hyperparameters and module, and not of gradients": [
        "trainer.py Trainer._evaluation: swapped: reporting.introduce(self)",
        "trainer.py Trainer._prediction: swapped: reporting.introduce(self)",
    ],
    "a single default then takes the longer way, on which its name is noted; no default logs": [
        "dispatch.py fan_out: 1 is 2: if len(functions) == 1 and not overrides(last, hook) and "
        "trainer._observe is None:",
    ],
}
EQUIVALENT = {name: why for why, names in _WHYS.items() for name in names}
