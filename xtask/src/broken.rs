//! Verdicts that can fail: variants of each experiment that are broken on purpose, and the claims that must not pass with them.
//!
//! `broken.json` of an experiment has `variants`: a name, the text that stands in place of other text in the stack files and options
//! (`instead`), and the claims that must then not be reproduced. A variant is measured in the quick form; one with `"form": "full"` in the full
//! form, by `cargo xtask variants`, because its claims do not pass in the quick form even where nothing is broken. `without` lists claims that are reproduced and that no variant can break, each
//! with its reason, and `open` those that wait for one. Together they have every claim that `RESULTS.md` calls reproduced, and no other.

use crate::json::{self, Json};
use crate::results::{Page, Paper, find_case, papers, reproduce};
use crate::steps::{End, release_build, run};
use std::fs;

/// A variant that is broken on purpose.
#[derive(Debug)]
struct Variant {
    name: String,
    /// Whether the quick form tells its claims from those of what is not broken.
    is_quick: bool,
    /// What stands in place of what.
    instead: Vec<[String; 2]>,
    /// Number and case of the claims that it breaks.
    claims: Vec<[String; 2]>,
}

/// What `broken.json` of an experiment says.
#[derive(Debug, Default)]
struct Broken {
    variants: Vec<Variant>,
    /// Number and case of claims that nothing can break; each has a reason.
    without: Vec<[String; 2]>,
    /// Number and case of claims that no variant breaks yet.
    open: Vec<[String; 2]>,
}

impl Broken {
    fn of(paper: &Paper) -> Result<Broken, String> {
        let path = paper.path("broken.json");
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Broken::parse(&text).map_err(|why| format!("{}: {why}", path.display()))
    }

    fn parse(text: &str) -> Result<Broken, String> {
        let all = json::parse(text)?;
        let variant = |v: &Json| {
            let name = v.get("name").text().to_string();
            let (instead, claims) = (pairs(v.get("instead"), 2)?, pairs(v.get("claims"), 2)?);
            if name.is_empty() || instead.is_empty() || claims.is_empty() {
                return Err(format!("variant `{name}` lacks its name, `instead` or `claims`"));
            }
            let is_quick = match v.get("form") {
                Json::Null => true,
                form if form.text() == "full" => false,
                _ => return Err(format!("variant `{name}`: its form is `full`, or is not said")),
            };
            Ok(Variant { name, is_quick, instead, claims })
        };
        let variants = all.get("variants").list().iter().map(variant).collect::<Result<_, _>>()?;
        let (without, open) = (pairs(all.get("without"), 3)?, pairs(all.get("open"), 2)?);
        Ok(Broken { variants, without, open })
    }

    /// What the page calls reproduced and this does not know, and the other way round.
    fn gaps(&self, page: &Page) -> Vec<String> {
        let broken = self.variants.iter().flat_map(|v| &v.claims);
        let known: Vec<&[String; 2]> = broken.chain(&self.without).chain(&self.open).collect();
        let reproduced: Vec<(&str, &str)> = page.reproduced().collect();
        let missing = reproduced.iter().filter(|r| !known.iter().any(|k| k[0] == r.0 && k[1] == r.1));
        let missing =
            missing.map(|r| format!("{} {} is reproduced, and broken.json does not have it", r.0, r.1));
        let idle = known.iter().filter(|k| !reproduced.contains(&(k[0].as_str(), k[1].as_str())));
        missing
            .chain(idle.map(|k| format!("broken.json has {} {}, which is not reproduced", k[0], k[1])))
            .collect()
    }
}

/// The first two texts of each list of `length`.
fn pairs(list: &Json, length: usize) -> Result<Vec<[String; 2]>, String> {
    let pair = |item: &Json| match item.list() {
        texts if texts.len() == length && texts.iter().all(|t| !t.text().is_empty()) => {
            Ok([texts[0].text().to_string(), texts[1].text().to_string()])
        }
        _ => Err(format!("a list of {length} texts is wanted")),
    };
    list.list().iter().map(pair).collect()
}

/// Every claim that is reproduced has a variant that breaks it, or a reason. Needs no program.
pub fn check_lists() -> Result<(), String> {
    let mut wrong = Vec::new();
    for paper in papers() {
        let (broken, page) = (Broken::of(&paper)?, Page::of(&paper)?);
        wrong.extend(broken.gaps(&page).into_iter().map(|gap| format!("{}: {gap}", paper.name)));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// No claim passes with a variant of the quick form that breaks it.
pub fn check_quick() -> End {
    check(|variant| variant.is_quick)
}

/// The same of the variants of the full form, which take some minutes each.
pub fn check_full() -> End {
    run(release_build()).and(|| check(|variant| !variant.is_quick))
}

fn check(which: fn(&Variant) -> bool) -> End {
    let mut wrong = Vec::new();
    for paper in papers() {
        match passes(&paper, which) {
            Ok(passes) => wrong.extend(passes),
            Err(why) => wrong.push(format!("{}: {why}", paper.name)),
        }
    }
    if wrong.is_empty() { End::Passed } else { End::Failed(wrong.join("\n")) }
}

/// The claims that pass where they must not.
fn passes(paper: &Paper, which: fn(&Variant) -> bool) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    for variant in Broken::of(paper)?.variants.into_iter().filter(which) {
        let asked: Vec<String> = variant.claims.iter().map(|[id, case]| format!("{id} {case}")).collect();
        let mut options: Vec<&str> = asked.iter().flat_map(|one| ["--only", one]).collect();
        for [from, to] in &variant.instead {
            options.extend(["--instead", from, to]);
        }
        let record =
            reproduce(paper, variant.is_quick, &options).map_err(|why| format!("{}: {why}", variant.name))?;
        for [id, case] in &variant.claims {
            let claim = find_case(&record, id, case).ok_or_else(|| format!("there is no {id} {case}"))?;
            if claim.get("by_itself").text() == "reproduced" {
                out.push(format!("{}: {id} {case} is reproduced with {}", paper.name, variant.name));
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_lacks_a_word_is_refused() {
        let all = r#"{"variants": [{"name": "no cache", "instead": [["a", "b"]], "claims": [["C0-4", "T1"]]}],
            "without": [["C0-14", "T1", "it counts bytes"]]}"#;
        let broken = Broken::parse(all).expect("it is whole");
        assert_eq!(broken.variants[0].claims, [["C0-4".to_string(), "T1".to_string()]]);
        assert_eq!(broken.without.len(), 1);
        assert!(broken.variants[0].is_quick);
        let full = all.replace("\"instead\"", "\"form\": \"full\", \"instead\"");
        assert!(!Broken::parse(&full).expect("it is whole").variants[0].is_quick);
        let slow = full.replace("\"full\"", "\"slow\"");
        assert!(Broken::parse(&slow).is_err(), "{slow}");
        for (from, to) in [("it counts bytes", ""), ("[[\"a\", \"b\"]]", "[]"), ("no cache", "")] {
            let text = all.replace(from, to);
            assert!(Broken::parse(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_reproduced_and_what_is_broken_are_the_same() {
        check_lists().expect("every claim that is reproduced is in broken.json");
    }
}
