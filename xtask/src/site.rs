//! `cargo xtask site`: the pages as a site, under `target/site/html`, with search, a dark mode, and a picture of each stack; nothing on it comes from
//! elsewhere, so it works offline.
//!
//! The pages are copied as they lie, with what they link to; a link to a folder leads to its page. The order of the site is that of `docs/README.md`.
//! Zensical makes the HTML; it is installed in a virtual environment under the target folder. Every stack file gets a picture from what `nandu check`
//! says of its devices.

use crate::docs::{self, documents};
use crate::files::{below, copy, list, read, write};
use crate::json::{Json, parse};
use crate::steps::{End, alone, release_build, released, root, run, target_dir};
use crate::tools::environment;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitCode};

/// What makes the HTML.
const BUILDER: &str = "zensical==0.0.73";

/// Its settings, but for the order of the pages.
const SETTINGS: &str = "\
site_name: Nandu
site_description: Flash storage you can simulate, compare and mount
docs_dir: source
site_dir: html
use_directory_urls: false
theme:
  font: false
  palette:
    - media: \"(prefers-color-scheme)\"
      toggle: { icon: lucide/sun-moon, name: Light }
    - media: \"(prefers-color-scheme: light)\"
      scheme: default
      toggle: { icon: lucide/sun, name: Dark }
    - media: \"(prefers-color-scheme: dark)\"
      scheme: slate
      toggle: { icon: lucide/moon, name: As the system }
  features: [navigation.sections, navigation.top, search.highlight, content.code.copy]
plugins: [search]
markdown_extensions:
  - tables
  - toc: { permalink: true }
  - pymdownx.superfences
  - pymdownx.highlight
nav:
";

/// `cargo xtask site [--no-build]`: builds the program, which knows the stacks, unless it is taken as it lies in `target/dist`, and the site.
pub fn site(words: &[&str]) -> Result<ExitCode, String> {
    match words {
        [] => Ok(alone("site", || run(release_build()).and(build))),
        ["--no-build"] => Ok(alone("site", build)),
        [.., other] => Err((*other).into()),
    }
}

fn build() -> End {
    match staged().and_then(|folder| html(&folder)) {
        Ok(index) => {
            println!("{}", index.display());
            println!(
                "search needs a server: python3 -m http.server --directory {}",
                parent(&index).display()
            );
            End::Passed
        }
        Err(why) => End::Failed(why),
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// The folder with everything that the site is made of.
fn staged() -> Result<PathBuf, String> {
    let folder = target_dir().join("site");
    let source = folder.join("source");
    let _ = fs::remove_dir_all(&source);
    let pages = documents();
    let mut linked = BTreeSet::new();
    for page in &pages {
        let text = read(page)?;
        let text = docs::relinked(&text, |link| relinked(page, link, &mut linked));
        write(&source.join(below(page)), &titled(&text))?;
    }
    for file in linked.into_iter().filter(|file| !pages.contains(file)) {
        copy(&file, &source.join(below(&file)))?;
    }
    write(&source.join("stacks/index.md"), &stacks(&source)?)?;
    write(&source.join("experiments/index.md"), &experiments(&pages))?;
    let index = read(&root().join("docs/README.md"))?;
    write(&folder.join("mkdocs.yml"), &format!("{SETTINGS}{}", order(&index)))?;
    Ok(folder)
}

/// Blocks of code that name their file, in the words of what makes the HTML.
fn titled(text: &str) -> String {
    let named = |line: &str| {
        let (language, name) = line.strip_prefix("```")?.split_once(' ')?;
        Some(format!("```{language} title=\"{name}\""))
    };
    text.split('\n').map(|line| named(line).unwrap_or_else(|| line.into())).collect::<Vec<_>>().join("\n")
}

/// Where a link of a page leads on the site. What it leads to and is no page is noted.
fn relinked(page: &Path, link: &str, linked: &mut BTreeSet<PathBuf>) -> String {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    if path.is_empty() || path.contains("://") {
        return link.into();
    }
    let target = plain(&parent(page).join(path));
    let mut to = path.trim_end_matches('/').to_string();
    if target.is_dir() {
        to += if target.join("README.md").is_file() { "/README.md" } else { "/index.md" };
    } else if target.is_file() && target.extension().is_none_or(|e| e != "md") {
        linked.insert(target);
    }
    anchor.map_or(to.clone(), |anchor| format!("{to}#{anchor}"))
}

/// A path without `..` in it.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = out.pop(),
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// The order of the pages: the sections of the index with the pages that each links to.
fn order(index: &str) -> String {
    let mut out = String::from("  - Nandu: README.md\n");
    for section in index.split("\n## ").skip(1) {
        let (title, body) = section.split_once('\n').unwrap_or((section, ""));
        out += &format!("  - \"{}\":\n", title.split(" (").next().unwrap_or(title));
        for part in body.split("](").skip(1) {
            let link = part.split(')').next().unwrap_or_default();
            if link.ends_with(".md") {
                let path = plain(&Path::new("docs").join(link));
                out += &format!("    - {}\n", path.display());
            }
        }
    }
    out + "  - Stacks: stacks/index.md\n"
}

/// The page of all stack files, each with its picture.
fn stacks(source: &Path) -> Result<String, String> {
    let mut text = String::from(
        "# Stacks\n\nStack files that come with Nandu. `nandu list stacks` names them, `nandu check NAME --print` shows one.\n",
    );
    let is_stack = |file: &PathBuf| file.extension().is_some_and(|e| e == "toml");
    for file in list(&root().join("stacks")).into_iter().filter(is_stack) {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut nandu = Command::new(released().join("nandu"));
        let output =
            nandu.arg("check").arg(&file).arg("--json").output().map_err(|e| format!("nandu: {e}"))?;
        let checked = parse(&String::from_utf8_lossy(&output.stdout))?;
        let stack = checked.get("stacks").list().first().ok_or(format!("nothing is said of {name}"))?;
        write(&source.join(format!("stacks/{name}.svg")), &picture(stack))?;
        let own = read(&file)?;
        let description = stack.get("description").text();
        text += &format!(
            "\n## {name}\n\n{description}\n\n![{name}]({name}.svg)\n\n```toml\n{}\n```\n",
            own.trim_end()
        );
    }
    Ok(text)
}

/// Width of a device, height of a row, and what is between two.
const BOX: (usize, usize) = (168, 44);
const GAP: (usize, usize) = (20, 34);

/// A stack as a picture: exports above, each device below those that stand on it, leaves at the bottom of their branch.
fn picture(stack: &Json) -> String {
    let devices = stack.get("devices").list();
    let find = |name: &str| devices.iter().position(|d| d.get("name").text() == name);
    let children = |at: usize| {
        devices[at].get("children").list().iter().filter_map(|c| find(c.text())).collect::<Vec<_>>()
    };
    // A device is one row below the lowest of those that stand on it.
    let mut rows = vec![1; devices.len()];
    for _ in 0..devices.len() {
        for at in 0..devices.len() {
            for child in children(at) {
                rows[child] = rows[child].max(rows[at] + 1);
            }
        }
    }
    let exports = stack.get("exports").list();
    // In the order in which they are met from the exports down.
    let mut met = Vec::new();
    let mut next: Vec<usize> = exports.iter().rev().filter_map(|e| find(e.get("device").text())).collect();
    while let Some(at) = next.pop() {
        if !met.contains(&at) {
            met.push(at);
            next.extend(children(at).into_iter().rev());
        }
    }
    let widest = (1..=devices.len()).map(|row| met.iter().filter(|&&at| rows[at] == row).count());
    let columns = widest.chain([exports.len()]).max().unwrap_or(1);
    let width = columns * (BOX.0 + GAP.0) + GAP.0;
    let height = (rows.iter().max().unwrap_or(&1) + 1) * (BOX.1 + GAP.1) + GAP.1;
    let centre = |row: usize, place: usize, of: usize| {
        (width * (2 * place + 1) / (2 * of), GAP.1 / 2 + row * (BOX.1 + GAP.1))
    };
    let place = |at: usize| {
        let row: Vec<usize> = met.iter().copied().filter(|&other| rows[other] == rows[at]).collect();
        centre(rows[at], row.iter().position(|&other| other == at).unwrap_or(0), row.len())
    };
    let (mut lines, mut boxes) = (String::new(), String::new());
    let mut line = |(x, y): (usize, usize), (to_x, to_y): (usize, usize)| {
        lines += &format!("<path d=\"M{x} {}L{to_x} {to_y}\"/>\n", y + BOX.1);
    };
    let mut node = |class: &str, (x, y): (usize, usize), name: &str, kind: &str| {
        boxes += &format!(
            "<g class=\"{class}\"><rect x=\"{}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"6\"/><text x=\"{x}\" y=\"{}\">{}</text>\
             <text class=\"kind\" x=\"{x}\" y=\"{}\">{}</text></g>\n",
            x - BOX.0 / 2,
            BOX.0,
            BOX.1,
            y + 19,
            escaped(name),
            y + 35,
            escaped(kind)
        );
    };
    for (index, export) in exports.iter().enumerate() {
        let from = centre(0, index, exports.len());
        node("export", from, export.get("name").text(), "export");
        find(export.get("device").text()).into_iter().for_each(|at| line(from, place(at)));
    }
    for &at in &met {
        node("device", place(at), devices[at].get("name").text(), devices[at].get("kind").text());
        children(at).into_iter().for_each(|child| line(place(at), place(child)));
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" role=\"img\" font-family=\"system-ui, sans-serif\" \
         font-size=\"14\" text-anchor=\"middle\">\n<style>rect {{ fill: #ddf4ff; stroke: #0969da }} .export rect {{ fill: #fff; stroke: #57606a }} text {{ fill: #1f2328 }} \
         .kind {{ fill: #57606a; font-size: 12px }} path {{ stroke: #8b949e; stroke-width: 1.5 }}\n@media (prefers-color-scheme: dark) {{ rect {{ fill: #0c2d6b; stroke: #58a6ff }} \
         .export rect {{ fill: #161b22; stroke: #8b949e }} text {{ fill: #e6edf3 }} .kind {{ fill: #9da7b1 }} }}</style>\n{lines}{boxes}</svg>\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// The page of the folder of experiments: one line for each.
fn experiments(pages: &[PathBuf]) -> String {
    let mut text = String::from(
        "# Experiments\n\n[The index of claims](../docs/experiments/claims.md) says what came out.\n\n",
    );
    let own = |page: &&PathBuf| page.starts_with(root().join("experiments")) && page.ends_with("README.md");
    for page in pages.iter().filter(own) {
        let title = read(page).unwrap_or_default();
        let title = title.lines().next().unwrap_or_default().trim_start_matches("# ").to_string();
        let folder = parent(page).file_name().unwrap_or_default().to_string_lossy().into_owned();
        text += &format!(
            "- [{title}]({folder}/README.md): [results]({folder}/RESULTS.md), [discussion]({folder}/DISCUSSION.md)\n"
        );
    }
    text
}

/// Makes the HTML; answers with its first page.
fn html(folder: &Path) -> Result<PathBuf, String> {
    let venv = folder.join("venv");
    environment(&venv, [BUILDER])?;
    let mut build = Command::new(venv.join("bin/zensical"));
    build.args(["build", "--clean", "--strict"]).current_dir(folder);
    run(build).ok()?;
    Ok(folder.join("html/index.html"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_the_name_of_its_file_as_its_title() {
        assert_eq!(
            titled("a b\n```toml a.toml\nx y\n```\n```sh\n"),
            "a b\n```toml title=\"a.toml\"\nx y\n```\n```sh\n"
        );
    }

    #[test]
    fn the_order_is_that_of_the_index() {
        let index = "# All\n\n## Learn (tutorials)\n\n- [A](t/a.md), and [b](../B.md).\n- [c](https://x)\n\n## More\n\n- [D](d.md#e)\n";
        let want = "  - Nandu: README.md\n  - \"Learn\":\n    - docs/t/a.md\n    - B.md\n  - \"More\":\n  - Stacks: stacks/index.md\n";
        assert_eq!(order(index), want);
    }

    #[test]
    fn a_device_stands_below_all_that_stand_on_it() {
        let stack = parse(
            r#"{"exports": [{"name": "e", "device": "m"}], "devices": [{"name": "d", "kind": "ssd", "children": []},
                {"name": "c", "kind": "cache", "children": ["d"]}, {"name": "m", "kind": "mirror", "children": ["c", "d"]}]}"#,
        );
        let svg = picture(&stack.expect("it is JSON"));
        let y = |name: &str| {
            let at = svg.find(&format!(">{name}</text>")).expect("it is drawn");
            let from = svg[..at].rfind("<rect").expect("it has a box");
            let y = svg[from..at].split("y=\"").nth(1).and_then(|rest| rest.split('"').next());
            y.and_then(|y| y.parse::<usize>().ok()).expect("it has a place")
        };
        assert!(y("e") < y("m") && y("m") < y("c") && y("c") < y("d"), "{svg}");
        assert_eq!(svg.matches("<path").count(), 4);
    }
}
