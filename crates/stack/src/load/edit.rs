//! One value of a stack file changed in its text, or a leg added, so that comments, order and form of all else stay as their author wrote them.

use toml::de::{DeTable, DeValue};

/// `text` with `value` as the text at the dotted `path`, for example `device.a.path`. `None`: the text is no TOML, or nothing with a
/// value of its own stands at the path.
pub fn with_text_at(text: &str, path: &[&str], value: &str) -> Option<String> {
    let (last, tables) = path.split_last()?;
    let mut table = DeTable::parse(text).ok()?.into_inner();
    for &key in tables {
        match table.remove(key)?.into_inner() {
            DeValue::Table(inner) => table = inner,
            _ => return None,
        }
    }
    let found = table.remove(*last)?;
    let span = found.span();
    if matches!(found.get_ref(), DeValue::Table(_)) {
        return None;
    }
    let quoted = toml::Value::String(value.into()).to_string();
    Some([&text[..span.start], &quoted, &text[span.end..]].concat())
}

/// `text` with `leg` as the last leg of `device`, and `table` as the options of the leg, a `file`. `None`: the text is no TOML, or the device names no legs in
/// it.
pub fn with_leg_added(text: &str, device: &str, leg: &str, table: toml::Table) -> Option<String> {
    let mut whole = DeTable::parse(text).ok()?.into_inner();
    let DeValue::Table(mut devices) = whole.remove("device")?.into_inner() else { return None };
    let DeValue::Table(mut of) = devices.remove(device)?.into_inner() else { return None };
    let mut last_of = |key: &str| match of.remove(key)?.into_inner() {
        DeValue::Array(values) => Some(values.last()?.span().end),
        _ => None,
    };
    let quoted = toml::Value::String(leg.into()).to_string();
    let mut places = vec![(last_of("legs")?, format!(", {quoted}"))];
    // One number for each leg, where there are some.
    places.extend(last_of("leg_queue_depth").map(|at| (at, ", 0".to_string())));
    places.sort();
    let mut out = text.to_string();
    for (at, more) in places.into_iter().rev() {
        out.insert_str(at, &more);
    }
    let end = if out.ends_with('\n') { "" } else { "\n" };
    let table = toml::to_string(&table).ok()?;
    Some(format!("{out}{end}\n[device.{quoted}]\nkind = \"file\"\n{table}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# two disks\n[device.a]\nkind = \"file\"   # fast\npath = 'a.img' # here\nsize = \"1 GiB\"\n\n\
        [device.b]\npath = \"b.img\"\ninner = { path = \"x\" }\n";

    #[test]
    fn a_leg_is_added_behind_the_last_one_whatever_stands_there() {
        let text = "[device.m]\nkind = \"mirror\"\nlegs = [\n  \"a\", # fast\n  'b' # slow, [old]\n]\nleg_queue_depth = [0, 4,]";
        let table = toml::Table::from_iter([("path".to_string(), toml::Value::from("c d.img"))]);
        let out = with_leg_added(text, "m", "c", table.clone()).expect("it has legs");
        assert!(
            out.starts_with(
                "[device.m]\nkind = \"mirror\"\nlegs = [\n  \"a\", # fast\n  'b', \"c\" # slow, [old]\n]\n"
            ),
            "{out}"
        );
        let read: toml::Table = out.parse().expect("it is TOML");
        let device = &read["device"];
        assert_eq!(device["m"]["legs"].as_array().map(Vec::len), Some(3));
        assert_eq!(device["m"]["leg_queue_depth"].as_array().map(Vec::len), Some(3));
        assert_eq!(
            (device["c"]["kind"].as_str(), device["c"]["path"].as_str()),
            (Some("file"), Some("c d.img"))
        );
        for none in ["", "not [ toml", "[device.m]\nlegs = []", "[device.m]\nlegs = 3", "[device]\nm = 1"] {
            assert_eq!(with_leg_added(none, "m", "c", table.clone()), None, "{none}");
        }
    }

    #[test]
    fn one_value_changes_and_all_else_stays() {
        let changed =
            with_text_at(TEXT, &["device", "a", "path"], "/disks/new one.img").expect("it is there");
        assert_eq!(changed, TEXT.replace("'a.img'", "\"/disks/new one.img\""));
        let inner = with_text_at(TEXT, &["device", "b", "inner", "path"], "y").expect("it is there");
        assert_eq!(inner, TEXT.replace("\"x\"", "\"y\""));
        let odd = with_text_at(TEXT, &["device", "b", "path"], "a \"b\"\n\\c").expect("it is there");
        let read: toml::Table = odd.parse().expect("it is TOML");
        assert_eq!(read["device"]["b"]["path"].as_str(), Some("a \"b\"\n\\c"));
        for path in [&["device", "c", "path"][..], &["device", "a"], &["device", "a", "path", "x"], &[]] {
            assert_eq!(with_text_at(TEXT, path, "z"), None, "{path:?}");
        }
        assert_eq!(with_text_at("not [ toml", &["a"], "z"), None);
    }
}
