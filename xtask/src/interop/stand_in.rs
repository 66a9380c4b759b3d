//! What stands in for nbdkit in tests of libnbd: it takes nbdkit's command line, and becomes our server over a file of what was asked for.
//!
//! nbdkit speaks with `-s` over its standard input. Our server has no such way; the command that it runs meanwhile relays between both.

use crate::steps::target_dir;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// The variable with the folder for what a test asks for.
pub const FOLDER: &str = "NANDU_INTEROP_FOLDER";
/// The variable with the path on which the real nbdkit is found.
pub const PATH: &str = "NANDU_INTEROP_PATH";
/// The file of that folder that says that our server was started.
pub const SERVED: &str = "served";
/// The file that says what ours cannot be.
pub const REFUSED: &str = "refused";
/// The descriptor at which the script keeps its standard output.
pub const OUTPUT: u32 = 9;
/// Options that ours needs no word for.
const WITHOUT_A_WORD: [&str; 10] = [
    "-f",
    "--foreground",
    "-v",
    "--verbose",
    "-fv",
    "-n",
    "--newstyle",
    "--no-fork",
    "--filter=cow",
    "--tls=off",
];
/// The least that a file of ours has, and what its length is a multiple of.
const LEAST: u64 = 4096;
const BLOCK: u64 = 512;
/// Plugins whose contents ours can have.
const PLUGINS: [&str; 4] = ["memory", "null", "pattern", "file"];
/// What only the real nbdkit can answer.
const ABOUT_ITSELF: [&str; 4] = ["--version", "--dump-config", "--dump-plugin", "--help"];

/// What is served.
#[derive(PartialEq, Eq, Debug)]
enum Content {
    /// Zeros, of which nothing is allocated.
    Zeros(u64),
    /// Each 8 bytes hold their place.
    Pattern(u64),
    /// A file that is there.
    File(PathBuf),
    /// The files of a folder, each as an export of its name, and as long as ours must be.
    Folder(PathBuf),
}

/// A command line of nbdkit.
#[derive(PartialEq, Eq, Debug, Default)]
struct Asked {
    /// Options of our server.
    options: Vec<String>,
    /// It speaks over its standard input.
    is_single: bool,
    /// It ends with the process that started it.
    ends_with_parent: bool,
    export: Option<String>,
    /// The command that runs meanwhile.
    run: Option<String>,
    content: Option<Content>,
}

/// Becomes our server, or the real nbdkit where that is asked for itself.
pub fn serve(words: &[&str]) -> ExitCode {
    let mut command = match command_of(words) {
        Ok(command) => command,
        Err(why) => {
            eprintln!("nbdkit: not to be had from Nandu: {why}");
            if let Some(folder) = std::env::var_os(FOLDER) {
                let _ = fs::write(Path::new(&folder).join(REFUSED), why); // it was said above
            }
            return ExitCode::FAILURE;
        }
    };
    let error = command.exec();
    eprintln!("{}: {error}", command.get_program().to_string_lossy());
    ExitCode::FAILURE
}

fn command_of(words: &[&str]) -> Result<Command, String> {
    if words.iter().any(|word| ABOUT_ITSELF.contains(word)) {
        let mut real = Command::new("nbdkit");
        real.args(words).env("PATH", std::env::var_os(PATH).unwrap_or_default());
        return Ok(real);
    }
    let asked = Asked::of(words)?;
    let folder = PathBuf::from(std::env::var_os(FOLDER).ok_or(format!("${FOLDER} is not set"))?);
    // A test may ask for several servers.
    let own = folder.join(std::process::id().to_string());
    fs::create_dir_all(&own).map_err(|error| format!("{}: {error}", own.display()))?;
    let stack = own.join("stack.toml");
    fs::write(&stack, asked.make(&own)?).map_err(|error| error.to_string())?;
    fs::write(folder.join(SERVED), "").map_err(|error| error.to_string())?;
    let mut server = Command::new("setpriv");
    server.args(asked.ends_with_parent.then_some(["--pdeathsig", "TERM"]).into_iter().flatten());
    server.arg("--").arg(target_dir().join("debug/nandu")).arg("serve").arg(stack).args(asked.options);
    let relay = || {
        let xtask = std::env::current_exe().map_err(|error| error.to_string())?;
        Ok::<_, String>(format!("exec '{}' interop relay", xtask.display()))
    };
    let run = if asked.is_single { Some(relay()?) } else { asked.run };
    if let Some(run) = run {
        server.args(["--run", &format!("exec >&{OUTPUT} {OUTPUT}>&-\n{run}")]);
    }
    // Ours says there where its exports are, and nbdkit does not.
    server.stdout(Stdio::null());
    Ok(server)
}

impl Asked {
    /// What nbdkit's words mean, or what ours cannot be.
    fn of(words: &[&str]) -> Result<Asked, String> {
        let mut asked = Asked::default();
        let mut plugin = None;
        let mut rest = words;
        while let [word, tail @ ..] = rest {
            let (option, value) = match word.split_once('=') {
                Some((option, value)) if word.starts_with("--") => (option, Some(value)),
                _ => (*word, None),
            };
            let takes_next =
                ["-U", "--unix", "-p", "--port", "-P", "--pidfile", "--run", "-e", "--exportname"];
            let (value, tail) = match tail {
                [next, tail @ ..] if value.is_none() && takes_next.contains(&option) => (Some(*next), tail),
                tail => (value, tail),
            };
            match (option, value) {
                _ if WITHOUT_A_WORD.contains(word) => {}
                ("--exit-with-parent", _) => asked.ends_with_parent = true,
                ("-s" | "--single", _) => asked.is_single = true,
                ("-r" | "--readonly", _) => asked.options.push("--read-only".into()),
                // With `--run` ours chooses an address itself.
                ("-U" | "--unix", Some("-")) => {}
                ("-U" | "--unix", Some(path)) => asked.options.extend(["-U", path].map(String::from)),
                ("-p" | "--port", Some(port)) => asked.options.extend(["-p", port].map(String::from)),
                ("-P" | "--pidfile", Some(path)) => asked.options.extend(["-P", path].map(String::from)),
                ("--run", Some(command)) => asked.run = Some(command.into()),
                ("-e" | "--exportname", Some(name)) => asked.export = Some(name.into()),
                ("--tls-certificates", _) => asked.options.push((*word).into()),
                // Without certificates nbdkit has nothing to verify.
                ("--tls-verify-peer", _) if !words.iter().any(|word| word.starts_with("--tls-c")) => {}
                ("--tls-verify-peer", _) => asked.options.push((*word).into()),
                ("--tls", Some("require")) => {}
                ("--tls", Some("on")) => asked.options.push((*word).into()),
                _ if word.starts_with('-') => return Err(format!("`{word}`")),
                _ if plugin.is_some() => asked.parameter(plugin.unwrap_or_default(), word)?,
                _ if !PLUGINS.contains(word) => return Err(format!("the plugin `{word}`")),
                _ => plugin = Some(*word),
            }
            rest = tail;
        }
        asked.settle(plugin)
    }

    /// A parameter of the plugin.
    fn parameter(&mut self, plugin: &str, word: &str) -> Result<(), String> {
        let (key, value) = word.split_once('=').unwrap_or(("", word));
        let refused = || Err(format!("the parameter `{word}` of the plugin `{plugin}`"));
        let content = match (plugin, key) {
            ("memory" | "null", "" | "size") => Content::Zeros(bytes(value)?),
            ("pattern", "" | "size") => Content::Pattern(bytes(value)?),
            ("file", "" | "file") => Content::File(value.into()),
            ("file", "dir") => Content::Folder(value.into()),
            _ => return refused(),
        };
        match self.content.replace(content) {
            None => Ok(()),
            Some(_) => refused(),
        }
    }

    fn settle(mut self, plugin: Option<&str>) -> Result<Asked, String> {
        match (plugin, &self.content) {
            (_, Some(_)) => Ok(self),
            // Without a size there are no bytes, and ours has at least a block.
            (Some("null"), None) => {
                self.content = Some(Content::Zeros(1 << 20));
                Ok(self)
            }
            (Some(plugin), None) => Err(format!("the plugin `{plugin}` without a parameter")),
            (None, None) => Err("no plugin".into()),
        }
    }

    /// Makes the files in a folder; returns the stack file.
    fn make(&self, folder: &Path) -> Result<String, String> {
        let files = self.files(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut stack = String::new();
        for (number, (name, path)) in files.iter().enumerate() {
            if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
                return Err(format!("an export called `{name}`"));
            }
            let size = fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?.len();
            of_whole_blocks(size).ok_or(format!("a file of {size} bytes, which ours cannot have"))?;
            let _ = write!(
                stack,
                "[device.disk{number}]\nkind = \"file\"\npath = {path:?}\nsize = {size}\n\n[export.{name:?}]\ndevice = \"disk{number}\"\n\n"
            );
        }
        Ok(stack)
    }

    /// What is served: names of exports, and their files.
    fn files(&self, folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
        let name = self.export.as_deref().unwrap_or("disk").to_string();
        let disk = folder.join("disk.img");
        match &self.content {
            Some(Content::Folder(from)) => {
                let files = crate::files::list(from).into_iter().filter(|path| path.is_file());
                let named = |path: PathBuf| Some((path.file_name()?.to_str()?.to_string(), path));
                let padded = |(name, path): (String, PathBuf)| {
                    let copy = folder.join(&name);
                    fs::copy(&path, &copy)?;
                    let file = File::options().write(true).open(&copy)?;
                    file.set_len(file.metadata()?.len().max(LEAST).next_multiple_of(BLOCK))?;
                    Ok((name, copy))
                };
                files.filter_map(named).map(padded).collect()
            }
            Some(Content::File(path)) => Ok(vec![(name, fs::canonicalize(path)?)]),
            Some(Content::Pattern(size)) => {
                let mut file = io::BufWriter::new(File::create(&disk)?);
                (0..size / 8).try_for_each(|at| file.write_all(&(at * 8).to_be_bytes()))?;
                file.flush()?;
                Ok(vec![(name, disk)])
            }
            Some(Content::Zeros(size)) => {
                File::create(&disk)?.set_len(*size)?;
                Ok(vec![(name, disk)])
            }
            None => Ok(Vec::new()),
        }
    }
}

/// A size that a file of ours may have.
fn of_whole_blocks(size: u64) -> Option<u64> {
    (size >= LEAST && size.is_multiple_of(BLOCK)).then_some(size)
}

/// A size as nbdkit reads it, where it is one of ours too.
fn bytes(text: &str) -> Result<u64, String> {
    let unit = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let shift = match &text[unit..] {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => return Err(format!("a size of `{text}`")),
    };
    let number = text[..unit].parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    number.and_then(of_whole_blocks).ok_or(format!("a size of `{text}`, which ours cannot have"))
}

/// Carries bytes between standard input, which is a client's socket, and the server that runs this command.
pub fn relay() -> ExitCode {
    let carried = || -> io::Result<()> {
        let client = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let server = UnixStream::connect(std::env::var_os("unixsocket").unwrap_or_default())?;
        std::thread::scope(|scope| {
            let back = scope.spawn(|| carry(&server, &client));
            let there = carry(&client, &server);
            back.join().map_or(Ok(()), |back| there.and(back))
        })
    };
    match carried() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("relay: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Carries bytes one way until there are no more, and says so.
fn carry(mut from: &UnixStream, mut to: &UnixStream) -> io::Result<()> {
    let carried = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write); // the other may have gone
    carried.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_of_nbdkit_becomes_one_of_ours() {
        let words = ["-f", "-v", "-P", "a.pid", "-U", "-", "--exit-with-parent", "-r", "pattern", "size=2M"];
        let asked = Asked::of(&words).expect("it can be had");
        assert_eq!(asked.options, ["-P", "a.pid", "--read-only"]);
        assert_eq!(asked.content, Some(Content::Pattern(2 << 20)));
        assert!(asked.ends_with_parent && !asked.is_single);
        let asked = Asked::of(&["-s", "null", "1G"]).expect("it can be had");
        assert_eq!((asked.content, asked.is_single), (Some(Content::Zeros(1 << 30)), true));
        let asked = Asked::of(&["file", "dir=/x"]).expect("it can be had");
        assert_eq!(asked.content, Some(Content::Folder("/x".into())));
    }

    #[test]
    fn what_ours_cannot_be_is_named() {
        let refused = |words: &[&str]| Asked::of(words).expect_err("it cannot be had");
        assert_eq!(refused(&["-s", "sh", "-"]), "the plugin `sh`");
        assert_eq!(refused(&["--filter=error", "null"]), "`--filter=error`");
        assert_eq!(refused(&["--tls=require", "--tls-psk=keys.psk", "null"]), "`--tls-psk=keys.psk`");
        assert_eq!(refused(&["memory", "size=299"]), "a size of `299`, which ours cannot have");
        assert_eq!(refused(&["memory"]), "the plugin `memory` without a parameter");
        assert_eq!(refused(&[]), "no plugin");
    }

    #[test]
    fn a_pattern_is_made_and_named_in_the_stack() {
        let folder = std::env::temp_dir().join(format!("nandu-interop-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let stack = Asked::of(&["pattern", "4k"]).and_then(|asked| asked.make(&folder));
        let written = fs::read(folder.join("disk.img")).expect("it is made");
        fs::remove_dir_all(&folder).expect("it is there");
        assert_eq!((written.len(), &written[504..512]), (4096, &504_u64.to_be_bytes()[..]));
        let stack = stack.expect("it can be had");
        assert!(stack.contains("size = 4096\n") && stack.contains("[export.\"disk\"]"), "{stack}");
    }
}
