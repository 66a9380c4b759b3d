//! One stack, one load, one run.

use nandu_base::{Precondition, Registry};
use nandu_sim::{Extension, RunError, RunOptions, RunResult, RunWorkload};
use nandu_stack::{BuildOptions, Stack, StackError, StackFile};
use nandu_trace::fit::{Fit, FitError};
use nandu_trace::{Requests, TraceError, synth};
use serde_json::Value;
use std::sync::Arc;

/// A stack and the requests that are replayed on its export.
#[derive(Clone)]
pub struct Experiment {
    registry: Arc<Registry>,
    file: StackFile,
    export: Option<String>,
    trace: Option<Requests>,
    fit: Fit,
    seed: u64,
    warm_up: u64,
    precondition: Precondition,
}

/// Why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The stack file is wrong, or cannot be built.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// The requests cannot be read or generated.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The requests do not fit the export.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// The run did not take place.
    #[error(transparent)]
    Run(#[from] RunError),
    /// No requests were given.
    #[error("the experiment has no requests: give it some with `generate`, `load` or `replay`")]
    NoRequests,
    /// The stack has no export of this name, or several and none was chosen.
    #[error("the stack has the exports {known}; choose one of them with `export`")]
    Export {
        /// The exports it has.
        known: String,
    },
}

impl Experiment {
    /// On the stack that `text` describes, with what Nandu ships.
    ///
    /// # Errors
    /// [`Error::Stack`]: each fault of the text with its line.
    pub fn new(text: &str) -> Result<Experiment, Error> {
        Experiment::with(&crate::builtin(), text)
    }

    /// The same with the machines and policies of `registry`.
    ///
    /// # Errors
    /// As [`Experiment::new`].
    pub fn with(registry: &Registry, text: &str) -> Result<Experiment, Error> {
        let file = StackFile::parse(text, "stack.toml")?;
        file.load(registry)?;
        Ok(Experiment {
            registry: Arc::new(registry.clone()),
            file,
            export: None,
            trace: None,
            fit: Fit::Error,
            seed: 1,
            warm_up: 0,
            precondition: Precondition::Empty,
        })
    }

    /// With `value` at the dotted `path` of the stack file: `device.cache.replacement.kind` and `lru`.
    ///
    /// # Errors
    /// [`Error::Stack`]: the path leads nowhere, or the value is wrong there.
    pub fn set(mut self, path: &str, value: &str) -> Result<Experiment, Error> {
        self.file = self.file.with_set(path, value)?;
        self.file.load(&self.registry)?;
        Ok(self)
    }

    /// Requests of the generator `name` with these parameters, a table of those to change, or null.
    ///
    /// # Errors
    /// [`Error::Trace`]: there is no such generator or parameter.
    pub fn generate(self, name: &str, parameters: &Value) -> Result<Experiment, Error> {
        let trace = synth::by_name(name)?.trace(parameters, self.seed)?;
        Ok(self.replay(trace))
    }

    /// The requests of a trace file, in any format of the registry.
    ///
    /// # Errors
    /// [`Error::Trace`].
    pub fn load(self, path: impl AsRef<std::path::Path>) -> Result<Experiment, Error> {
        let formats = nandu_trace::formats::of(&self.registry);
        let options = nandu_trace::LoadOptions { formats, ..nandu_trace::LoadOptions::default() };
        let trace = nandu_trace::load(path.as_ref(), &options)?;
        Ok(self.replay(trace))
    }

    /// These requests.
    pub fn replay(self, trace: impl Into<Requests>) -> Experiment {
        Experiment { trace: Some(trace.into()), ..self }
    }

    /// The export that they go to; needed where the stack has several.
    pub fn export(self, name: &str) -> Experiment {
        Experiment { export: Some(name.into()), ..self }
    }

    /// How the requests are laid onto the export. By default their addresses must lie within it.
    pub fn fit(self, fit: Fit) -> Experiment {
        Experiment { fit, ..self }
    }

    /// The seed of generators that are named from here on, and of the run. By default 1.
    pub fn seed(self, seed: u64) -> Experiment {
        Experiment { seed, ..self }
    }

    /// Requests at the start that do not count.
    pub fn warm_up(self, requests: u64) -> Experiment {
        Experiment { warm_up: requests, ..self }
    }

    /// The state of every drive at the start. By default nothing was ever written.
    pub fn precondition(self, precondition: Precondition) -> Experiment {
        Experiment { precondition, ..self }
    }

    /// The checked stack.
    ///
    /// # Errors
    /// [`Error::Stack`].
    pub fn stack(&self) -> Result<Stack, Error> {
        Ok(self.file.load(&self.registry)?)
    }

    /// Runs it. The same experiment gives the same result on every machine.
    ///
    /// # Errors
    /// Anything that [`Error`] names.
    pub fn run(&self) -> Result<RunResult, Error> {
        let stack = self.stack()?;
        let named = |name: &String| stack.exports.iter().position(|e| e.name == *name);
        let export = match &self.export {
            Some(name) => named(name),
            None => (stack.exports.len() == 1).then_some(0),
        };
        let known = || stack.exports.iter().map(|e| e.name.as_str()).collect::<Vec<_>>().join(", ");
        let export = export.ok_or_else(|| Error::Export { known: known() })?;
        let trace = self.trace.as_ref().ok_or(Error::NoRequests)?;
        let options =
            BuildOptions { seed: self.seed, precondition: self.precondition, ..BuildOptions::default() };
        let built = stack.build(&options)?;
        let room = built.parts[stack.exports[export].node as usize].machine.limits().capacity;
        let trace_hash = trace.content_hash().to_string();
        let (trace, report) = trace.clone().fit(room, self.fit)?;
        let workload = RunWorkload {
            export,
            trace,
            trace_hash,
            fit: report.method.name().into(),
            pace: None,
            passes: 1,
            warm_up: 0,
        };
        let options = RunOptions {
            workloads: vec![workload],
            seed: self.seed,
            precondition: self.precondition,
            warm_up: self.warm_up,
            extension: Extension::NONE,
            stack_name: "stack.toml".into(),
        };
        Ok(nandu_sim::run(&stack, &options, |_| ())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const STACK: &str = "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"memory\"\nsize = \"16 MiB\"\nlatency = \"1 ms\"\n";

    #[test]
    fn a_run_needs_requests_that_fit_and_repeats_itself() {
        let empty = Experiment::new(STACK).expect("a stack");
        assert!(matches!(empty.run(), Err(Error::NoRequests)));
        let params = json!({ "requests": 500, "space": "64 MiB" });
        let large = empty.generate("uniform", &params).expect("a generator");
        assert!(matches!(large.run(), Err(Error::Fit(_))));
        let wrapped = large.clone().fit(Fit::Wrap);
        let (one, two) = (wrapped.run().expect("a run"), wrapped.run().expect("a run"));
        assert_eq!(format!("{one:?}"), format!("{two:?}"));
        assert!(matches!(wrapped.export("other").run(), Err(Error::Export { .. })));
    }

    #[test]
    fn a_wrong_policy_is_refused_with_the_nearest() {
        let text = "[export.data]\ndevice = \"c\"\n[device.c]\nkind = \"cache\"\nbelow = \"m\"\nmemory = \"1 MiB\"\n\
                    replacement = { kind = \"s3-fivo\" }\n[device.m]\nkind = \"memory\"\nsize = \"16 MiB\"\n";
        let error = Experiment::new(text).err().expect("no such policy").to_string();
        assert!(error.contains("s3-fifo") && error.contains("stack.toml:7"), "{error}");
    }
}
