//! One stack, one load, one run.

use crate::{Failure, Fit, Listener, Load, Precondition, Registry, Replay, RunResult, Stack, open};
use nandu_experiment::console::Console;
use nandu_experiment::race::{run, warn};
use nandu_experiment::source::GenSetting;
use nandu_stack::StackFile;
use nandu_trace::Requests;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// A stack and the requests that are replayed on its export.
///
/// What is not said is as `nandu run` has it: drives were filled once, and a generated load begins again while the stack is not
/// steady.
#[derive(Clone)]
pub struct Experiment {
    registry: Arc<Registry>,
    file: StackFile,
    source: String,
    replay: Replay,
}

impl Experiment {
    /// On the stack that `text` describes, with what Nandu ships.
    ///
    /// # Errors
    /// Each fault of the text with its line.
    pub fn new(text: &str) -> Result<Experiment, Failure> {
        Experiment::with(&crate::builtin(), text)
    }

    /// The same with the machines and policies of `registry`.
    ///
    /// # Errors
    /// As [`Experiment::new`].
    pub fn with(registry: &Registry, text: &str) -> Result<Experiment, Failure> {
        Experiment::of(registry, text, "stack.toml", "stack.toml")
    }

    /// On the stack in a file, or a built-in one of this name.
    ///
    /// # Errors
    /// There is none, or it is wrong.
    pub fn open(name: &str, registry: &Registry) -> Result<Experiment, Failure> {
        let (text, shown) = open::text(name)?;
        Experiment::of(registry, &text, &shown, name)
    }

    fn of(registry: &Registry, text: &str, shown: &str, source: &str) -> Result<Experiment, Failure> {
        let file = open::with_sets(StackFile::parse(text, shown)?, &[])?;
        file.load(registry)?;
        let (registry, source) = (Arc::new(registry.clone()), source.into());
        Ok(Experiment { registry, file, source, replay: Replay::default() })
    }

    /// With `value` at the dotted `path` of the stack file: `device.cache.replacement.kind` and `lru`.
    ///
    /// # Errors
    /// The path leads nowhere, or the value is wrong there.
    pub fn set(mut self, path: &str, value: &str) -> Result<Experiment, Failure> {
        self.file = self.file.with_set(path, value)?;
        self.file.load(&self.registry)?;
        Ok(self)
    }

    /// Requests of the generator `name` with these parameters, a table of those to change, or null.
    pub fn generate(mut self, name: &str, parameters: &Value) -> Experiment {
        let settings = parameters.as_object().into_iter().flatten();
        self.replay.settings =
            settings.map(|(key, value)| GenSetting { key: key.clone(), value: value.clone() }).collect();
        self.of_load(name.into())
    }

    /// The requests of a trace file, in any format of the registry.
    pub fn load(self, path: impl Into<PathBuf>) -> Experiment {
        let path: PathBuf = path.into();
        // A bare name may be that of a generator.
        let path = if path.parent().is_none_or(|p| p.as_os_str().is_empty()) {
            PathBuf::from(".").join(path)
        } else {
            path
        };
        self.of_load(path.display().to_string().into())
    }

    /// These requests.
    pub fn replay(self, trace: impl Into<Requests>) -> Experiment {
        self.of_load(Load::Given(trace.into()))
    }

    fn of_load(mut self, load: Load) -> Experiment {
        self.replay.trace = Some(load);
        self
    }

    /// With an option of the load by its name, as `nandu run` has them: `iodepth` and `16`.
    ///
    /// # Errors
    /// There is no such option, or the value is none of its.
    pub fn option(self, key: &str, value: &str) -> Result<Experiment, Failure> {
        Ok(Experiment { replay: self.replay.with(key, value)?, ..self })
    }

    /// The export that they go to; needed where the stack has several.
    pub fn export(mut self, name: &str) -> Experiment {
        self.replay.export = Some(name.into());
        self
    }

    /// How the requests are laid onto the export. By default their addresses must lie within it.
    pub fn fit(mut self, fit: Fit) -> Experiment {
        self.replay.fit = Some(fit);
        self
    }

    /// The seed of the generator, and of the run. By default 1.
    pub fn seed(mut self, seed: u64) -> Experiment {
        self.replay.seed = Some(seed);
        self
    }

    /// The state of every drive at the start.
    pub fn precondition(mut self, precondition: Precondition) -> Experiment {
        self.replay.precondition = Some(precondition);
        self
    }

    /// The checked stack.
    ///
    /// # Errors
    /// It does not load.
    pub fn stack(&self) -> Result<Stack, Failure> {
        Ok(self.file.load(&self.registry)?)
    }

    /// Runs it. The same experiment gives the same result on every machine.
    ///
    /// # Errors
    /// The requests cannot be had, do not fit, or the run does not take place.
    pub fn run(&self) -> Result<RunResult, Failure> {
        self.run_for(Console::SILENT)
    }

    /// The same, while `listener` hears of progress, and may call it off. Its notes and warnings say what to know before believing the figures.
    ///
    /// # Errors
    /// As [`Experiment::run`]; its kind says where it was called off.
    pub fn watch(&self, listener: &dyn Listener) -> Result<RunResult, Failure> {
        self.run_for(Console::to(listener))
    }

    fn run_for(&self, console: Console) -> Result<RunResult, Failure> {
        let opened = open::Opened::of(self.stack()?, &self.source);
        let row = run(opened, &self.replay, &self.registry, console)?;
        warn(std::slice::from_ref(&row), console);
        Ok(row.result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FaultKind, Work};
    use serde_json::json;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    const STACK: &str = "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"memory\"\nsize = \"16 MiB\"\nlatency = \"1 ms\"\n";

    fn large() -> Experiment {
        let params = json!({ "requests": 500, "space": "64 MiB" });
        Experiment::new(STACK).expect("a stack").generate("uniform", &params)
    }

    #[test]
    fn a_run_needs_requests_that_fit_and_repeats_itself() {
        let said = |experiment: &Experiment| experiment.run().expect_err("a fault").message;
        assert!(said(&Experiment::new(STACK).expect("a stack")).contains("no --trace is given"));
        assert!(said(&large()).contains("--fit wrap"));
        let wrapped = large().fit(Fit::Wrap);
        let (one, two) = (wrapped.run().expect("a run"), wrapped.run().expect("a run"));
        assert_eq!(format!("{one:?}"), format!("{two:?}"));
        assert!(said(&wrapped.export("other")).contains("no such export"));
    }

    #[test]
    fn a_wrong_policy_is_refused_with_the_nearest() {
        let text = "[export.data]\ndevice = \"c\"\n[device.c]\nkind = \"cache\"\nbelow = \"m\"\nsize = \"1 MiB\"\n\
                    replacement = { kind = \"s3-fivo\" }\n[device.m]\nkind = \"memory\"\nsize = \"16 MiB\"\n";
        let error = Experiment::new(text).err().expect("no such policy");
        assert_eq!(error.kind, FaultKind::Stack);
        assert!(error.message.contains("s3-fifo") && error.message.contains("stack.toml:7"), "{error}");
    }

    /// Hears what is said.
    #[derive(Default)]
    struct Ear(Mutex<Vec<(bool, String)>>);

    impl Listener for Ear {
        fn note(&self, text: &str) {
            self.0.lock().expect("no holder panics").push((false, text.into()));
        }
        fn warning(&self, text: &str) {
            self.0.lock().expect("no holder panics").push((true, text.into()));
        }
        fn begins(&self, _: Option<u64>, _: &str) -> Box<dyn Work> {
            Box::new(Nothing)
        }
    }

    #[test]
    fn who_watches_hears_what_to_know_before_believing_it() {
        let ear = Ear::default();
        let result = large().fit(Fit::Wrap).watch(&ear).expect("a run");
        let cautions = crate::verdict::cautions(&result).into_iter().map(|c| (c.serious, c.text));
        let said = ear.0.into_inner().expect("no holder panics");
        assert_eq!(said, cautions.collect::<Vec<_>>());
        assert!(said.iter().any(|(_, text)| text.contains("too few requests for p99.9")), "{said:?}");
    }

    /// Calls a run off when it has heard of it.
    struct Impatient<'a>(&'a AtomicU64);

    impl Listener for Impatient<'_> {
        fn note(&self, _: &str) {}
        fn warning(&self, _: &str) {}
        fn begins(&self, _: Option<u64>, _: &str) -> Box<dyn Work> {
            Box::new(Nothing)
        }
        fn stops(&self) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed) > 0
        }
    }

    struct Nothing;

    impl Work for Nothing {
        fn done(&self, _: u64) {}
        fn grows(&self, _: u64) {}
        fn ends(&self) {}
    }

    #[test]
    fn a_run_can_be_called_off() {
        let params = json!({ "requests": 1_000_000, "space": "16 MiB" });
        let long = Experiment::new(STACK).expect("a stack").generate("uniform", &params);
        let asked = AtomicU64::new(0);
        let error = long.option("iodepth", "4").expect("an option").watch(&Impatient(&asked));
        assert_eq!(error.err().map(|e| e.kind), Some(FaultKind::Stopped));
        assert!(asked.into_inner() < 10, "it ends soon after");
    }
}
