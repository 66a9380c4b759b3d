//! Long work: it runs on a thread of its own with the interpreter's lock released, while the calling thread watches for signals and
//! tells how far it is. A signal whose handler raises calls the work off.

use crate::failure::raised;
use crate::policy::exception;
use nandu::{Console, Failure, Listener, Work};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Between two looks at signals.
const LOOK: Duration = Duration::from_millis(50);
/// How long work that was called off is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was said: notes with `false`, warnings with `true`.
pub type Said = Vec<(bool, String)>;

/// How far work is, and whether it is called off.
#[derive(Default)]
struct Watch {
    stops: AtomicBool,
    said: Mutex<Said>,
    meter: Arc<Meter>,
}

#[derive(Default)]
struct Meter {
    done: AtomicU64,
    total: AtomicU64,
    what: Mutex<String>,
}

impl Listener for Watch {
    fn note(&self, text: &str) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).push((false, text.into()));
    }

    fn warning(&self, text: &str) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).push((true, text.into()));
    }

    fn begins(&self, total: Option<u64>, what: &str) -> Box<dyn Work> {
        self.meter.done.store(0, Ordering::Relaxed);
        self.meter.total.store(total.unwrap_or(0), Ordering::Relaxed);
        *self.meter.what.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
        Box::new(Shared(Arc::clone(&self.meter)))
    }

    fn stops(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }
}

struct Shared(Arc<Meter>);

impl Work for Shared {
    fn done(&self, more: u64) {
        self.0.done.fetch_add(more, Ordering::Relaxed);
    }

    fn grows(&self, more: u64) {
        self.0.total.fetch_add(more, Ordering::Relaxed);
    }

    fn ends(&self) {}
}

/// Does `work` and returns what it made and what was said meanwhile. `progress` is called with what is done, the total (0 where it is not
/// known) and a word for it, about twenty times a second.
pub fn work<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(Console) -> Result<T, Failure> + Send + 'static,
) -> PyResult<(T, Said)> {
    let watch = Arc::new(Watch::default());
    let (done, ended) = channel();
    let theirs = Arc::clone(&watch);
    std::thread::spawn(move || {
        let made = catch_unwind(AssertUnwindSafe(|| work(Console::to(&*theirs))));
        // Nobody waits any more when it was called off.
        let _ = done.send(made);
    });
    let ended = Mutex::new(ended);
    let wait = |time| py.detach(|| ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(time));
    let made = loop {
        match wait(LOOK) {
            Ok(made) => break made,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the thread of a run is gone"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let told = || -> PyResult<()> {
            py.check_signals()?;
            if let Some(progress) = progress {
                let (meter, what) = (&watch.meter, &watch.meter.what);
                let what = what.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let figures = (meter.done.load(Ordering::Relaxed), meter.total.load(Ordering::Relaxed), what);
                progress.call1(figures)?;
            }
            Ok(())
        };
        if let Err(error) = told() {
            watch.stops.store(true, Ordering::Relaxed);
            let _ = wait(PATIENCE);
            return Err(error);
        }
    };
    let said = std::mem::take(&mut *watch.said.lock().unwrap_or_else(PoisonError::into_inner));
    match made {
        Ok(Ok(made)) => Ok((made, said)),
        Ok(Err(failure)) => Err(raised(py, &failure)),
        Err(panic) => {
            let panic = match exception(panic) {
                Ok(error) => return Err(error),
                Err(panic) => panic,
            };
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
            Err(PyRuntimeError::new_err(format!("a run broke off, which is a fault of Nandu: {text}")))
        }
    }
}
