//! `nandu man`: pages of the manual, made from the parser as the help is: one for the program, and one for each command with what belongs to it.

use crate::args::{Cli, ManArgs};
use crate::failure::Failure;
use crate::output;
use clap::{Arg, Command, CommandFactory};
use std::fmt::Write;

/// Prints a page, or writes all.
pub fn man(args: &ManArgs) -> Result<(), Failure> {
    let pages = pages();
    let Some(folder) = &args.into else {
        let name = args.command.as_ref().map_or_else(|| "nandu".into(), |command| format!("nandu-{command}"));
        let page = pages.iter().find(|(known, _)| *known == name);
        let (_, page) = page.ok_or_else(|| {
            let known = pages.iter().filter_map(|(name, _)| name.strip_prefix("nandu-"));
            let known: Vec<&str> = known.collect();
            let asked = args.command.as_deref().unwrap_or_default();
            Failure::input(format!("unknown command `{asked}`; there are: {}", known.join(", ")))
        })?;
        return output::print_as_it_is(page);
    };
    std::fs::create_dir_all(folder).map_err(|error| Failure::unwritable(folder, &error))?;
    for (name, page) in pages {
        let path = folder.join(format!("{name}.1"));
        std::fs::write(&path, page).map_err(|error| Failure::unwritable(&path, &error))?;
    }
    Ok(())
}

/// Each page with its name.
fn pages() -> Vec<(String, String)> {
    let mut program = Cli::command();
    program.build();
    let commands: Vec<Command> = visible(&program).cloned().collect();
    let names: Vec<String> = commands.iter().map(|c| format!("nandu-{}", c.get_name())).collect();
    let mut out = vec![("nandu".into(), page("nandu", &program, &names))];
    for (command, name) in commands.iter().zip(&names) {
        out.push((name.clone(), page(name, command, &["nandu".to_string()])));
    }
    out
}

/// The commands of `command` that the help shows, but for `help` itself.
fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help")
}

fn page(name: &str, command: &Command, others: &[String]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let about = about.lines().next().unwrap_or_default().trim_end_matches('.');
    let mut out = format!(".TH {} 1 \"\" \"nandu {version}\" \"User Commands\"\n", name.to_uppercase());
    let _ =
        write!(out, ".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}\n", escaped(name), escaped(about), usage(command));
    if let Some(long) = command.get_long_about() {
        out += ".SH DESCRIPTION\n";
        paragraphs(&mut out, &long.to_string());
    }
    let is_program = name == "nandu";
    if command.has_subcommands() {
        out += ".SH COMMANDS\n";
    }
    for sub in visible(command) {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        if is_program {
            let _ = write!(out, ".TP\n.BR nandu\\-{} (1)\n{}\n", escaped(sub.get_name()), line(&about));
            continue;
        }
        let _ = write!(out, ".SS {}\n{}\n.PP\n{}\n", escaped(sub.get_name()), usage(sub), line(&about));
        options(&mut out, sub, false);
        examples(&mut out, sub, ".PP\nExamples:\n");
    }
    options(&mut out, command, true);
    examples(&mut out, command, ".SH EXAMPLES\n");
    out += ".SH EXIT STATUS\n";
    for (code, what) in [(0, "Done."), (1, "The run failed."), (2, "The input was wrong.")] {
        let _ = write!(out, ".TP\n.B {code}\n{what}\n");
    }
    if is_program || name == "nandu-sweep" {
        out += ".TP\n.B 3\nNo point of a sweep meets the bounds.\n";
    }
    out += ".SH SEE ALSO\n";
    for (at, other) in others.iter().enumerate() {
        let comma = if at + 1 < others.len() { "," } else { "" };
        let _ = writeln!(out, ".BR {} (1){comma}", escaped(other));
    }
    out
}

/// How it is called.
fn usage(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").split_whitespace().collect::<Vec<_>>().join(" ");
    format!(".B {}", escaped(&usage))
}

/// The arguments, by their headings.
fn options(out: &mut String, command: &Command, is_page: bool) {
    let shown: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set()).collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for arg in &shown {
        let heading = if arg.is_positional() { Some("Arguments") } else { arg.get_help_heading() };
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading in headings {
        let title = heading.unwrap_or("Options");
        if is_page {
            let _ = writeln!(out, ".SH {}", escaped(&title.to_uppercase()));
        }
        for arg in &shown {
            let own = if arg.is_positional() { Some("Arguments") } else { arg.get_help_heading() };
            // What every command has is told once, on its page.
            let is_told_above =
                !is_page && (arg.is_global_set() || ["help", "version"].contains(&arg.get_id().as_str()));
            if own == heading && !is_told_above {
                argument(out, arg);
            }
        }
    }
}

fn argument(out: &mut String, arg: &Arg) {
    let values: Vec<String> = match arg.get_value_names() {
        Some(names) if arg.get_action().takes_values() => {
            names.iter().map(|name| format!("\\fI{}\\fR", escaped(name))).collect()
        }
        _ => Vec::new(),
    };
    let mut names = Vec::new();
    names.extend(arg.get_short().map(|short| format!("\\fB\\-{short}\\fR")));
    names.extend(arg.get_long().map(|long| format!("\\fB\\-\\-{}\\fR", escaped(long))));
    let mut head = names.join(", ");
    if !values.is_empty() {
        let space = if head.is_empty() { "" } else { " " };
        head += &format!("{space}{}", values.join(" "));
    }
    let _ = writeln!(out, ".TP\n{head}");
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut parts = help.split("\n\n").map(|part| sentence(&line(part)));
    let _ = writeln!(out, "{}", parts.next().unwrap_or_default());
    for part in parts {
        let _ = write!(out, ".IP\n{part}\n");
    }
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|v| v.to_string_lossy().into_owned()).collect();
    if !defaults.is_empty() && arg.get_action().takes_values() && !arg.is_hide_default_value_set() {
        let _ = writeln!(out, "Default: {}.", escaped(&defaults.join(", ")));
    }
    let possible = arg.get_possible_values();
    if !possible.is_empty() && arg.get_action().takes_values() && !arg.is_hide_possible_values_set() {
        let _ = writeln!(out, "One of:");
        for value in possible.iter().filter(|value| !value.is_hide_set()) {
            let help =
                value.get_help().map_or_else(String::new, |help| format!(": {}", line(&help.to_string())));
            let _ = writeln!(out, ".br\n\\fB{}\\fR{help}", escaped(value.get_name()));
        }
    }
}

/// What the help ends with: lines of examples, and sentences.
fn examples(out: &mut String, command: &Command, title: &str) {
    let Some(after) = command.get_after_help() else { return };
    let after = after.to_string();
    let mut is_open = false;
    let mut text = String::new();
    let _ = write!(out, "{title}");
    for row in after.lines().filter(|row| !["Example:", "Examples:"].contains(&row.trim())) {
        let is_example = row.starts_with("  ");
        if is_example && !is_open {
            paragraphs(out, &std::mem::take(&mut text));
            out.push_str(".nf\n");
        } else if !is_example && is_open {
            out.push_str(".fi\n");
        }
        is_open = is_example;
        match is_example {
            true => drop(writeln!(out, "{}", guarded(&escaped(row.trim_start())))),
            false => text += &format!("{row}\n"),
        }
    }
    if is_open {
        out.push_str(".fi\n");
    }
    paragraphs(out, &text);
}

fn paragraphs(out: &mut String, text: &str) {
    for part in text.split("\n\n").map(line).filter(|part| !part.is_empty()) {
        let _ = write!(out, ".PP\n{part}\n");
    }
}

/// A paragraph as one line.
fn line(text: &str) -> String {
    guarded(&escaped(&text.split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// With its full stop: more sentences may follow.
fn sentence(text: &str) -> String {
    let ends = text.is_empty() || text.ends_with(['.', ':', '!', '?']);
    if ends { text.into() } else { format!("{text}.") }
}

/// A line that begins as a request would is none.
fn guarded(text: &str) -> String {
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text.into() }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '`' => out.push_str("\\(ga"),
            '\'' => out.push_str("\\(aq"),
            '"' => out.push_str("\\(dq"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every option of a command, and of those below it.
    fn longs(command: &Command, out: &mut Vec<String>) {
        out.extend(
            command
                .get_arguments()
                .filter(|a| !a.is_hide_set())
                .filter_map(|a| Some(a.get_long()?.to_string())),
        );
        visible(command).for_each(|sub| longs(sub, out));
    }

    #[test]
    fn every_command_has_a_page_with_its_options() {
        let mut program = Cli::command();
        program.build();
        let pages = pages();
        for command in visible(&program) {
            let name = format!("nandu-{}", command.get_name());
            let (_, page) = pages.iter().find(|(known, _)| *known == name).expect("a page");
            let mut options = Vec::new();
            longs(command, &mut options);
            for option in options.into_iter().filter(|option| option != "version") {
                assert!(page.contains(&format!("\\-\\-{}\\fR", escaped(&option))), "{name}: --{option}");
            }
            for part in [".SH NAME", ".SH SYNOPSIS", ".SH EXAMPLES", ".SH EXIT STATUS"] {
                assert!(page.contains(part), "{name}: {part}");
            }
            assert!(pages[0].1.contains(&format!("nandu\\-{} (1)", escaped(command.get_name()))), "{name}");
        }
    }

    #[test]
    fn nothing_of_a_text_is_taken_for_a_request() {
        assert_eq!(line(".x `a-b'\n\\c"), "\\&.x \\(gaa\\-b\\(aq \\ec");
        for (name, page) in pages() {
            for row in page.lines().filter(|row| row.starts_with(['.', '\''])) {
                let request = row.split(' ').next().unwrap_or_default();
                let known = [".TH", ".SH", ".SS", ".TP", ".IP", ".PP", ".B", ".BR", ".br", ".nf", ".fi"];
                assert!(known.contains(&request), "{name}: {row}");
            }
        }
    }
}
