//! Developer commands: `cargo xtask test` before every push, `cargo xtask bench` for the speed goals.
//!
//! No dependency, so that it builds in a second on a bare machine.

mod advise;
mod bench;
mod broken;
mod causes;
mod circles;
mod debian;
mod decisions;
mod docs;
mod figures;
mod files;
mod fuzz;
mod interop;
mod json;
mod memcheck;
mod mutants;
mod outside;
mod packages;
mod programs;
mod purity;
mod python;
mod reference;
mod release;
mod results;
mod site;
mod soak;
mod steps;
mod test;
mod tools;
mod ublk;
mod unsafe_code;
mod versus_kernel;
mod words;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask test  [--require tools] [--quick] [--only WORD]
                                                everything that must hold before a push
cargo xtask bench [--gate]                      the speed goals, measured
cargo xtask peers [--no-build] [--rounds N] [--seconds N] [--only WORD]
                                                the server beside nbdkit and qemu-nbd, and layers beside what lies below them
cargo xtask docs  [--update] [--no-build] [--reference | FILE...]
                                                the documented commands, and the pages made from the registry, alone
cargo xtask results [--no-build] [--index] [PAPER...]
                                                claims of papers, measured anew: RESULTS.md and docs/experiments/claims.md
cargo xtask variants                            variants of experiments that only the full form tells from what is not broken
cargo xtask advise-check [--no-build] [--only LOAD]
                                                what `nandu advise` finds against measuring every variant: docs/how-to/choose-a-drive.md
cargo xtask versus-kernel [--no-build] [--rounds N] [--only ROW]
                                                md, bcache, dm-cache and dm-writecache beside ours, in guests of user-mode Linux on Debian, as root:
                                                docs/experiments/versus-kernel.md
cargo xtask mutants [--planted] [--only N] [--seeds N] [--seed N] [--count N] [--minutes N]
                                                bugs planted in the sources, and which of them are found
cargo xtask release [--only WORD]               a version as it would be published: target/published
cargo xtask deb [--no-build] [--install]        the Debian package alone: target/published/*.deb; tried in a bare root that mmdebstrap makes
cargo xtask site [--no-build]                   the pages as a site with search and pictures of stacks: target/site/html
cargo xtask python                              the package for Python with all that goes with it: tables, charts, notebooks, the gallery
cargo xtask words                               phrases that readers stumble over, old names, counters that do not exist
cargo xtask advisories                          known faults of what we depend on, where cargo-deny or cargo-audit is installed
cargo xtask fuzz FAMILY [--minutes N]           any bytes as traces, records, stack-file, case, nbd or control
cargo xtask ublk  [--no-build] [--only WORD]    block devices of `nandu serve --ublk` in an emulated guest whose kernel has them: ext4, fio, kills,
                                                PostgreSQL
cargo xtask interop [--no-build] [--only WORD]  the tests of libnbd and tools of others against our server, on Debian
cargo xtask memcheck                            code with `unsafe` in it under valgrind
cargo xtask soak [--minutes N] [--cuts N]       served stacks, killed, cut, damaged and read again, for so long; and guests of user-mode Linux
                                                that are cut so often for each kind of stack

test   installs what it needs (on Debian as root; elsewhere only Python parts, under target/), then checks format,
       lints, tests, documented commands, injected bugs, seeds and instruction counts.
       --require tools   a missing tool is a failure, not a skip
       --only WORD       the steps whose name has the word in it
       --quick           what a developer wants to know within five minutes of a warm build: format, purity, packages, unit tests of
                         all crates, and seeds of the verified simulation; without lints, long tests and the released program
docs   builds the released program, runs the commands that are documented in README.md, docs/ and experiments/, and compares.
       --update          puts what they print now in place of what is printed there; lines of three dots stay
       --no-build        the program is taken as it lies in target/dist
       --reference       the pages made from the registry and the parser alone
results  builds the released program, runs both forms of each paper (five minutes of processor time for all), and writes RESULTS.md and
       full-only.json of the experiment, and the verdicts of docs/experiments/claims.md.
       --index           only docs/experiments/claims.md, from the pages as they are
       --no-build        the program is taken as it lies in target/dist, if no source is newer
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test", options @ ..] => match test::Options::parse(options) {
            Ok(options) => test::all(&options),
            Err(word) => usage(&word),
        },
        ["mutants", options @ ..] => match mutants::Options::parse(options) {
            Ok(options) => mutants::run(&options),
            Err(word) => usage(&word),
        },
        ["fuzz", words @ ..] => fuzz::run(words).unwrap_or_else(|word| usage(&word)),
        ["soak", words @ ..] => soak::run(words).unwrap_or_else(|word| usage(&word)),
        ["docs", words @ ..] => docs::only(words).unwrap_or_else(|word| usage(&word)),
        ["versus-kernel", words @ ..] => versus_kernel::measure(words).unwrap_or_else(|word| usage(&word)),
        ["results", words @ ..] => results::results(words).unwrap_or_else(|word| usage(&word)),
        ["variants"] => steps::alone("variants of the full forms", broken::check_full),
        ["advise-check", words @ ..] => advise::check(words).unwrap_or_else(|word| usage(&word)),
        ["release", words @ ..] => release::release(words).unwrap_or_else(|word| usage(&word)),
        ["deb", words @ ..] => release::deb(words).unwrap_or_else(|word| usage(&word)),
        ["site", words @ ..] => site::site(words).unwrap_or_else(|word| usage(&word)),
        ["memcheck"] => steps::alone("memcheck", memcheck::check),
        ["ublk", words @ ..] => ublk::check(words).unwrap_or_else(|word| usage(&word)),
        ["interop", words @ ..] => interop::check(words).unwrap_or_else(|word| usage(&word)),
        ["python"] => steps::alone("python", python::whole),
        ["words"] => steps::alone("words", words::check),
        ["advisories"] => steps::alone("advisories", packages::advisories),
        ["peers", words @ ..] => bench::peers::run_words(words).unwrap_or_else(|word| usage(&word)),
        ["bench"] => bench::bench(false),
        ["bench", "--gate"] => bench::bench(true),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        [word, ..] => usage(word),
    }
}

fn usage(word: &str) -> ExitCode {
    eprint!("cargo xtask: `{word}` is not known here\n\n{HELP}");
    ExitCode::from(2)
}
