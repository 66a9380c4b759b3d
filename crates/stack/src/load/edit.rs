//! One value of a stack file changed in its text, so that comments, order and form of all else stay as their author wrote them.

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

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# two disks\n[device.a]\nkind = \"file\"   # fast\npath = 'a.img' # here\nsize = \"1 GiB\"\n\n\
        [device.b]\npath = \"b.img\"\ninner = { path = \"x\" }\n";

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
