//! Answers to the options of the handshake ("Option types"), and what they settle for the session.

use super::error::NbdError;
use super::export::{Export, Exports};
use super::handshake::OPTION_DATA_MAX;
use super::reply::Form;
use super::wire::{self, Fields, info, opt, rep, transmission_flag};

/// Whether sessions may start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Door {
    /// They may.
    Open,
    /// The server goes away.
    Leaving,
    /// This client may have none; the text says why.
    Shut(String),
}

/// Whether a session is encrypted ("TLS": the modes NOTLS, SELECTIVETLS for all exports alike, FORCEDTLS).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Tls {
    /// It cannot be.
    #[default]
    Absent,
    /// If the client wants it.
    Offered,
    /// It must be: nothing is said of exports before.
    Required,
}

/// What an answered option means for the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// The handshake goes on.
    GoesOn,
    /// It goes on behind TLS.
    StartsTls,
    /// The transmission phase starts, on this export.
    Starts(Start),
    /// The client said good-bye and may hang up.
    Ends,
}

/// What the transmission phase has to know of the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Start {
    /// Index of the export.
    pub export: usize,
    /// Which messages are used.
    pub form: Form,
    /// `base:allocation` is selected for this export.
    pub block_status: bool,
}

/// What client and server agreed upon so far.
#[derive(Clone, Default, Debug)]
pub(super) struct Negotiated {
    /// The answer to `NBD_OPT_EXPORT_NAME` has no reserved zeroes.
    pub no_zeroes: bool,
    pub tls: Tls,
    /// TLS is in use.
    is_encrypted: bool,
    form: Form,
    /// The export for which `base:allocation` is selected.
    context: Option<usize>,
}

/// An error reply: type and text for people.
type Refused = (u32, &'static str);

const MALFORMED: Refused = (rep::ERR_INVALID, "the lengths inside the option do not add up");
const NO_DATA: Refused = (rep::ERR_INVALID, "this option takes no data");
const NO_EXPORT: Refused = (rep::ERR_UNKNOWN, "unknown export");
const TOO_BIG: Refused = (rep::ERR_TOO_BIG, "more than 32 KiB of option data");
const UNKNOWN: Refused = (rep::ERR_UNSUP, "this server does not have the option");
const TLS_FIRST: Refused = (rep::ERR_TLS_REQD, "this server wants TLS first: NBD_OPT_STARTTLS");
const IS_ENCRYPTED: Refused = (rep::ERR_INVALID, "TLS is in use");
const LEAVING: Refused = (rep::ERR_SHUTDOWN, "the server is shutting down");
const NEEDS_STRUCTURED: Refused =
    (rep::ERR_INVALID, "metadata contexts need structured replies or extended headers");
const IS_EXTENDED: Refused = (rep::ERR_EXT_HEADER_REQD, "extended headers are in use");

impl Negotiated {
    /// Whether the data of an option is looked at.
    pub(super) fn reads_data(option: u32) -> bool {
        matches!(
            option,
            opt::EXPORT_NAME | opt::INFO | opt::GO | opt::LIST_META_CONTEXT | opt::SET_META_CONTEXT
        )
    }

    /// Answers one whole option into `out`. `data` holds its `length` bytes where [`Negotiated::reads_data`] says so
    /// and they are not too many.
    pub(super) fn answer(
        &mut self,
        exports: &Exports,
        door: &Door,
        option: u32,
        length: u32,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Answer, NbdError> {
        if option == opt::EXPORT_NAME {
            return self.export_name(exports, door, data, out);
        }
        if let Door::Shut(why) = door
            && option != opt::ABORT
        {
            put_reply(out, option, rep::ERR_POLICY, &[why.as_bytes()]);
            // A client that asks for what it came for has its answer. Others may ask for more first.
            let is_last = matches!(option, opt::GO | opt::INFO | opt::LIST);
            return Ok(if is_last { Answer::Ends } else { Answer::GoesOn });
        }
        let done = if option == opt::ABORT {
            Ok(Answer::Ends)
        } else if *door == Door::Leaving {
            Err(LEAVING)
        } else if option == opt::STARTTLS {
            self.start_tls(length)
        } else if self.needs_tls() {
            Err(TLS_FIRST)
        } else if Negotiated::reads_data(option) && length > OPTION_DATA_MAX {
            self.forget_context(option);
            Err(TOO_BIG)
        } else {
            match option {
                opt::LIST if length > 0 => Err(NO_DATA),
                opt::LIST => Ok(list(exports, out)),
                opt::INFO | opt::GO => self.info(exports, option, data, out),
                opt::STRUCTURED_REPLY | opt::EXTENDED_HEADERS if length > 0 => Err(NO_DATA),
                opt::STRUCTURED_REPLY if self.form == Form::Extended => Err(IS_EXTENDED),
                opt::STRUCTURED_REPLY => {
                    self.form = Form::Structured;
                    Ok(Answer::GoesOn)
                }
                opt::EXTENDED_HEADERS => {
                    self.form = Form::Extended;
                    Ok(Answer::GoesOn)
                }
                opt::LIST_META_CONTEXT | opt::SET_META_CONTEXT => self.contexts(exports, option, data, out),
                _ => Err(UNKNOWN),
            }
        };
        match done {
            Ok(answer) => {
                put_reply(out, option, rep::ACK, &[]);
                Ok(answer)
            }
            Err((kind, text)) => {
                put_reply(out, option, kind, &[text.as_bytes()]);
                Ok(Answer::GoesOn)
            }
        }
    }

    fn needs_tls(&self) -> bool {
        self.tls == Tls::Required && !self.is_encrypted
    }

    /// `NBD_OPT_STARTTLS`: what was agreed upon in the clear is forgotten.
    fn start_tls(&mut self, length: u32) -> Result<Answer, Refused> {
        match self.tls {
            Tls::Absent => Err(UNKNOWN),
            _ if self.is_encrypted => Err(IS_ENCRYPTED),
            _ if length > 0 => Err(NO_DATA),
            tls => {
                let no_zeroes = self.no_zeroes;
                *self = Negotiated { no_zeroes, tls, is_encrypted: true, ..Negotiated::default() };
                Ok(Answer::StartsTls)
            }
        }
    }

    /// `NBD_OPT_EXPORT_NAME`: size and flags, bare. It cannot be refused but by hanging up.
    fn export_name(
        &self,
        exports: &Exports,
        door: &Door,
        name: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Answer, NbdError> {
        match door {
            Door::Open => {}
            Door::Leaving => return Err(NbdError::ShuttingDown),
            Door::Shut(why) => return Err(NbdError::TurnedAway { why: why.clone() }),
        }
        if self.needs_tls() {
            return Err(NbdError::TlsRequired);
        }
        if self.form == Form::Extended {
            return Err(NbdError::ExportNameExtended);
        }
        let Some(index) = exports.find(name) else {
            return Err(NbdError::UnknownExport { name: String::from_utf8_lossy(name).into_owned() });
        };
        let export = &exports.all()[index];
        out.extend_from_slice(&export.size.0.to_be_bytes());
        out.extend_from_slice(&export.transmission_flags(self.has_chunks()).to_be_bytes());
        if !self.no_zeroes {
            out.extend_from_slice(&[0; wire::RESERVED_ZEROES]);
        }
        Ok(self.start(index))
    }

    fn start(&self, export: usize) -> Answer {
        Answer::Starts(Start {
            export,
            form: self.form,
            block_status: self.has_chunks() && self.context == Some(export),
        })
    }

    /// Whether replies may have several parts.
    fn has_chunks(&self) -> bool {
        self.form != Form::Simple
    }

    /// `NBD_OPT_INFO` and `NBD_OPT_GO`: the same answer, but `GO` starts the transmission phase.
    fn info(
        &self,
        exports: &Exports,
        option: u32,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Answer, Refused> {
        let (name, asked) = parse_info(data).ok_or(MALFORMED)?;
        let index = exports.find(name).ok_or(NO_EXPORT)?;
        let export = &exports.all()[index];
        let mut flags = export.transmission_flags(self.has_chunks());
        if self.form == Form::Extended && self.context == Some(index) {
            flags |= transmission_flag::BLOCK_STATUS_PAYLOAD;
        }
        put_info_export(out, option, export, flags);
        if asked.name {
            put_reply(out, option, rep::INFO, &[&info::NAME.to_be_bytes(), export.name.as_bytes()]);
        }
        if asked.description && !export.description.is_empty() {
            let text = export.description.as_bytes();
            put_reply(out, option, rep::INFO, &[&info::DESCRIPTION.to_be_bytes(), text]);
        }
        if asked.block_size {
            put_info_block_size(out, option, export);
        }
        Ok(if option == opt::GO { self.start(index) } else { Answer::GoesOn })
    }

    /// Selecting replaces what was selected, also when it fails.
    fn forget_context(&mut self, option: u32) {
        if option == opt::SET_META_CONTEXT {
            self.context = None;
        }
    }

    /// `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`. There is one context, `base:allocation`.
    fn contexts(
        &mut self,
        exports: &Exports,
        option: u32,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Answer, Refused> {
        self.forget_context(option);
        if !self.has_chunks() {
            return Err(NEEDS_STRUCTURED);
        }
        let listing = option == opt::LIST_META_CONTEXT;
        let (name, matches) = parse_queries(data, listing).ok_or(MALFORMED)?;
        let index = exports.find(name).ok_or(NO_EXPORT)?;
        if matches {
            let id = if listing { 0 } else { wire::BASE_ALLOCATION_ID };
            put_reply(out, option, rep::META_CONTEXT, &[&id.to_be_bytes(), wire::BASE_ALLOCATION]);
            if !listing {
                self.context = Some(index);
            }
        }
        Ok(Answer::GoesOn)
    }
}

/// `NBD_OPT_LIST`: one reply per export, with its description where it has one.
fn list(exports: &Exports, out: &mut Vec<u8>) -> Answer {
    for export in exports.all() {
        let name = export.name.as_bytes();
        let length = (name.len() as u32).to_be_bytes();
        put_reply(out, opt::LIST, rep::SERVER, &[&length, name, export.description.as_bytes()]);
    }
    Answer::GoesOn
}

/// The information a client asks for. Kinds it does not know are ignored, as the protocol says.
#[derive(Default)]
struct Asked {
    name: bool,
    description: bool,
    block_size: bool,
}

fn parse_info(data: &[u8]) -> Option<(&[u8], Asked)> {
    let mut fields = Fields(data);
    let name = fields.string()?;
    let mut asked = Asked::default();
    for _ in 0..fields.u16()? {
        match fields.u16()? {
            info::NAME => asked.name = true,
            info::DESCRIPTION => asked.description = true,
            info::BLOCK_SIZE => asked.block_size = true,
            _ => {}
        }
    }
    fields.is_empty().then_some((name, asked))
}

/// The export's name, and whether any query means `base:allocation`. No query at all means every context in a list,
/// and none in a selection.
fn parse_queries(data: &[u8], listing: bool) -> Option<(&[u8], bool)> {
    let mut fields = Fields(data);
    let name = fields.string()?;
    let count = fields.u32()?;
    let mut matches = listing && count == 0;
    for _ in 0..count {
        let query = fields.string()?;
        matches |= query == wire::BASE_ALLOCATION || (listing && query == wire::BASE_WILDCARD);
    }
    fields.is_empty().then_some((name, matches))
}

fn put_info_export(out: &mut Vec<u8>, option: u32, export: &Export, flags: u16) {
    let size = export.size.0.to_be_bytes();
    put_reply(out, option, rep::INFO, &[&info::EXPORT.to_be_bytes(), &size, &flags.to_be_bytes()]);
}

/// The three sizes; [`Exports::new`] keeps each below 2^32.
fn put_info_block_size(out: &mut Vec<u8>, option: u32, export: &Export) {
    let blocks = export.blocks;
    let [minimum, preferred, maximum] =
        [blocks.minimum, blocks.preferred, blocks.maximum].map(|size| (size.0 as u32).to_be_bytes());
    put_reply(out, option, rep::INFO, &[&info::BLOCK_SIZE.to_be_bytes(), &minimum, &preferred, &maximum]);
}

/// Appends an option reply whose data are the `parts`, one after the other.
fn put_reply(out: &mut Vec<u8>, option: u32, kind: u32, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&wire::OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(length as u32).to_be_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}
