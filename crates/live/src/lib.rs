//! The server: runs a stack on real files and offers it to NBD clients and as block devices of the kernel.
//!
//! [`serve()`] is the whole of it. Below it: [`nbd`] is the protocol as a machine without sockets, `ublk` the kernel's block devices; [`reactor`] is the one
//! thread that runs the stack; [`backend`] does the file operations, [`drive`] holds the data of emulated drives; [`ctl`]
//! administers a running server. The layers
//! of a stack are the same machines that the simulator runs.
//!
//! **What is stable.** What the crate `nandu` names of it, from the first release on. The rest is for the other crates of Nandu and may
//! change in any version.

pub mod backend;
pub mod clock;
pub mod ctl;
pub mod drive;
pub mod examine;
mod listen;
pub mod nbd;
pub mod over_files;
pub mod probe;
pub mod reactor;
pub mod serve;
pub mod stack_file;
mod tls;
mod ublk;
pub mod wall;

pub use backend::FileIo;
pub use reactor::Caps;
pub use serve::{Ended, Event, Level, MetricsAt, Reload, Report, ServeError, ServeOptions, Stopper, serve};
pub use tls::{TlsError, TlsOptions};
pub use ublk::{UblkError, UblkNumber};
