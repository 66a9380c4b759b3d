//! Every range that a machine declares is kept: what lies next to it is refused, with a reason that says what would be right.

use nandu_base::Kind;
use nandu_stack::builtin;

/// The options of this kind that must be given.
fn least(kind: &Kind) -> toml::Table {
    let schema = (kind.schema)();
    let required = schema.get("required").and_then(|names| names.as_array()).cloned().unwrap_or_default();
    let mut table = toml::Table::new();
    for name in required.iter().filter_map(|name| name.as_str()) {
        let property = &schema.get("properties").expect("a required option is described")[name];
        let value = match property["type"].as_str() {
            Some("array") => toml::Value::from(vec!["a", "b", "c"]),
            Some("integer") => toml::Value::from(4),
            Some("string") => toml::Value::from("a"),
            _ => toml::Value::from("1 MiB"),
        };
        table.insert(name.into(), value);
    }
    table
}

#[test]
fn what_lies_next_to_a_range_is_refused_and_the_range_is_named() {
    let mut tried = 0;
    for kind in builtin().kinds() {
        for option in (kind.declared)() {
            for refused in &option.refused {
                let name = option.name;
                let what = format!("{}: {name} = {refused}", kind.name);
                let mut table = least(kind);
                let given: toml::Table = format!("{name} = {refused}").parse().expect("it is TOML");
                table.extend(given);
                let config = (kind.parse)(table).unwrap_or_else(|error| panic!("{what}: {error}"));
                let error = config.check_ranges().expect_err(&what);
                assert_eq!(error.key.as_deref(), Some(name), "{what}");
                let says = error.reason.split_once(" is out of bounds: ");
                assert!(says.is_some_and(|(_, range)| range.ends_with(&option.range)), "{what}: {error}");
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "only {tried} values were tried");
}
