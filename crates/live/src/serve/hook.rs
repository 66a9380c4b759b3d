//! A command that runs when something changes about the health of what is served: to send a mail, to wake somebody.
//!
//! Commands run one after the other on a thread of its own, in the order of the events; the server waits for none of them. What the command needs is in its
//! environment: `NANDU_EVENT` (a word, see [`Event`]), `NANDU_DEVICE`, `NANDU_LEG` where it is about one, `NANDU_MESSAGE` (the line of the log) and
//! `NANDU_TIME` (UTC).

use super::options::Report;
use crate::reactor::{LegNews, News};
use nandu_base::{Health, Notice};
use std::io;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::SystemTime;

/// Something that changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// What: `healthy`, `exposed`, `degraded`, `failed` (the health of a device), `left-out`, `used-again`, `leg-faulty`, `leg-back`, `leg-gone`, `leg-replaced`, `leg-stays`, `spare-taken`, `spare-refused` (a member),
    /// `differs`, `damaged`, `scrubbed` (its data).
    pub what: &'static str,
    /// The device.
    pub device: String,
    /// The member, where it is about one of those that the device stands on.
    pub leg: Option<String>,
    /// The line of the log, without its time.
    pub message: String,
}

impl Event {
    /// What a report says of health; none of most.
    pub fn of(report: &Report) -> Option<Event> {
        let Report::News(news) = report else { return None };
        let (what, device, leg) = match news {
            News::Device(device, notice) => {
                let what = match notice {
                    Notice::Health(Health::Healthy) => "healthy",
                    Notice::Health(Health::Exposed) => "exposed",
                    Notice::Health(Health::Degraded) => "degraded",
                    Notice::Health(Health::Failed) => "failed",
                    Notice::Differ { .. } => "differs",
                    Notice::Mismatch { .. } => "damaged",
                    Notice::Scrubbed { .. } => "scrubbed",
                    Notice::Grown(_) => "grown",
                    Notice::NotGrown => "not-grown",
                    Notice::Retaken { .. } | Notice::Refused(_) | Notice::Gone(..) => return None,
                };
                (what, device, None)
            }
            News::Cache(device, health) => (health.word(), device, None),
            News::Leg(leg, news) => {
                let what = match news {
                    LegNews::Faulty(_) => "leg-faulty",
                    LegNews::Back => "leg-back",
                    LegNews::StillGone(_) => "leg-gone",
                    LegNews::Replaced(..) => "leg-replaced",
                    LegNews::Stays(_) => "leg-stays",
                };
                (what, leg, None)
            }
            News::Left { device, leg, .. } => ("left-out", device, Some(leg.clone())),
            News::Spare { leg, result: Ok(()), .. } => ("spare-taken", leg, None),
            News::Spare { leg, result: Err(_), .. } => ("spare-refused", leg, None),
            News::Extended { device, leg, .. } => ("leg-added", device, Some(leg.clone())),
            News::UsedAgain { device, leg } => ("used-again", device, Some(leg.clone())),
            _ => return None,
        };
        Some(Event { what, device: device.clone(), leg, message: report.to_string() })
    }
}

/// The command, waiting for events.
pub(super) struct Hook(Sender<(SystemTime, Event)>);

impl Hook {
    /// # Errors
    /// There is no room for a thread.
    pub fn start(command: String) -> io::Result<Hook> {
        let (sender, events) = channel::<(SystemTime, Event)>();
        std::thread::Builder::new().name("nandu-hook".into()).spawn(move || {
            for (time, event) in events {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(&command).stdin(Stdio::null());
                shell.env("NANDU_EVENT", event.what).env("NANDU_DEVICE", &event.device);
                shell.env("NANDU_MESSAGE", &event.message).env("NANDU_TIME", crate::wall::rfc3339(time));
                match &event.leg {
                    Some(leg) => shell.env("NANDU_LEG", leg),
                    None => shell.env_remove("NANDU_LEG"),
                };
                let _ = shell.status(); // what it does and how it ends is its own affair
            }
        })?;
        Ok(Hook(sender))
    }

    pub fn hear(&self, report: &Report) {
        if let Some(event) = Event::of(report) {
            let _ = self.0.send((SystemTime::now(), event)); // its thread lives as long as this
        }
    }
}
