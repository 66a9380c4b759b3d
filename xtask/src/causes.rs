//! What a discussion says of the claims that do not come out: `DISCUSSION.md` of each experiment has a table with the cause of every claim of
//! the paper that is not reproduced, or agrees in direction only, and with what shows that it is the cause.
//!
//! A row is `| claim | cases | cause | what shows it |`, its cases separated by semicolons, as `RESULTS.md` calls them. What shows a cause is
//! a command or another case, in backticks; a cause that no run shows says so, in the words of [`NONE`].

use crate::results::{Page, Paper, papers};
use std::fs;

/// The head of the table.
const HEAD: &str = "| claim | cases | cause | what shows it |";
/// What stands where nothing shows a cause.
const NONE: &str = "no run shows it";

/// A claim with one of its cases.
type Case = (String, String);

/// The cases of the table in `text`, in its order.
fn cases(text: &str) -> Result<Vec<Case>, String> {
    let mut lines = text.lines().skip_while(|line| *line != HEAD).skip(2).peekable();
    if lines.peek().is_none() {
        return Err(format!("there is no table with the head `{HEAD}`"));
    }
    let mut out = Vec::new();
    for line in lines.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [id, cases, cause, shown] = cells.as_slice() else {
            return Err(format!("a row has four cells: {line}"));
        };
        if cause.is_empty() || !(shown.contains('`') || shown.starts_with(NONE)) {
            let wanted = "a row has a cause, and a command or a case in backticks that shows it";
            return Err(format!("{wanted}; where there is none, `{NONE}`: {line}"));
        }
        out.extend(cases.split("; ").map(|case| ((*id).to_string(), case.to_string())));
    }
    Ok(out)
}

/// How the table in `text` and what `page` calls short of reproduced differ.
fn gaps(text: &str, page: &Page) -> Result<Vec<String>, String> {
    let (told, short) = (cases(text)?, page.short());
    let missing = short.iter().filter(|(id, case)| !told.iter().any(|t| t.0 == *id && t.1 == *case));
    let missing = missing.map(|(id, case)| format!("{id} {case} has no cause"));
    let idle = told.iter().filter(|(id, case)| !short.contains(&(id.as_str(), case.as_str())));
    let idle = idle.map(|(id, case)| format!("{id} {case} has a cause, and does not need one"));
    let again = told.iter().enumerate().filter(|(n, case)| told[..*n].contains(case));
    let again = again.map(|(_, (id, case))| format!("{id} {case} stands there twice"));
    Ok(missing.chain(idle).chain(again).collect())
}

fn check_paper(paper: &Paper) -> Result<Vec<String>, String> {
    let path = paper.path("DISCUSSION.md");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    gaps(&text, &Page::of(paper)?)
}

/// Every claim of a paper that is not reproduced has its cause. Needs no program.
pub fn check() -> Result<(), String> {
    let mut wrong = Vec::new();
    for paper in papers() {
        let gaps = check_paper(&paper).map_err(|why| format!("DISCUSSION.md of {}: {why}", paper.name))?;
        wrong.extend(gaps.into_iter().map(|gap| format!("DISCUSSION.md of {}: {gap}", paper.name)));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::pages;

    fn table(rows: &str) -> String {
        format!("# Discussion\n\n{HEAD}\n|---|---|---|---|\n{rows}\n\nMore.\n")
    }

    #[test]
    fn every_claim_short_of_reproduced_has_one_cause() {
        let page = &pages()[0];
        let of = |rows: &str| gaps(&table(rows), page);
        let whole =
            "| C9-1 | two | the load | `nandu run a.toml` |\n| C9-2 | all | the drive | no run shows it |";
        assert_eq!(of(whole), Ok(Vec::new()));
        assert_eq!(of("| C9-1 | two | the load | `b` |"), Ok(vec!["C9-2 all has no cause".into()]));
        let idle = of(&format!("{whole}\n| C9-1 | one | the load | `b` |"));
        assert_eq!(idle, Ok(vec!["C9-1 one has a cause, and does not need one".into()]));
        let twice = of(&format!("{whole}\n| C9-1 | two | the load | `b` |"));
        assert_eq!(twice, Ok(vec!["C9-1 two stands there twice".into()]));
        for wrong in [
            "| C9-1 | two | the load | it is plain |",
            "| C9-1 | two |  | `b` |",
            "| C9-1 | two | the load |",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        assert!(gaps("# Discussion\n", page).is_err());
    }

    #[test]
    fn every_discussion_has_its_causes() {
        check().expect("every claim that is not reproduced has its cause");
    }
}
