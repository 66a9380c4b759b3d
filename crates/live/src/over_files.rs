//! The text of a stack file for one device over files: what `create` makes and what `assemble` finds.

use nandu_base::ByteLen;
use std::fmt::Write;

/// A file below the device.
#[derive(Clone, Debug)]
pub struct Member {
    /// What the stack file calls it.
    pub name: String,
    /// Where it lies.
    pub path: String,
    /// Its capacity.
    pub size: ByteLen,
    /// It is a block device: it is used past the page cache.
    pub is_device: bool,
    /// The block of the checksums over it, if there are any.
    pub checksums: Option<ByteLen>,
}

/// One device over files, with one export.
#[derive(Clone, Debug)]
pub struct OverFiles {
    /// What stands at the top of the file, a line each.
    pub comment: Vec<String>,
    /// The name of the export.
    pub export: String,
    /// The kind of the device, which is its name too.
    pub kind: String,
    /// Its options, as TOML.
    pub options: Vec<(String, String)>,
    /// Its members, in order.
    pub members: Vec<Member>,
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string() // a basic string of TOML: what JSON escapes is escaped alike
}

impl OverFiles {
    /// The text. It reads as the stack that it says, unless an option is wrong.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for line in &self.comment {
            let _ = writeln!(out, "# {line}");
        }
        let kind = &self.kind;
        let _ = write!(
            out,
            "\n[export.{}]\ndevice = \"{kind}\"\n\n[device.{kind}]\nkind = \"{kind}\"\n",
            self.export
        );
        let names = || self.members.iter().map(|member| quoted(&member.name)).collect::<Vec<_>>().join(", ");
        match kind.as_str() {
            "hybrid" => {
                for member in &self.members {
                    let _ = writeln!(out, "{0} = \"{0}\"", member.name);
                }
            }
            "concat" => drop(writeln!(out, "parts = [{}]", names())),
            _ => drop(writeln!(out, "legs = [{}]", names())),
        }
        for (key, value) in &self.options {
            let _ = writeln!(out, "{key} = {value}");
        }
        for Member { name, path, size, is_device, checksums } in &self.members {
            let mut file = name.clone();
            if let Some(block) = checksums {
                file += "-file";
                let _ = write!(out, "\n[device.{name}]\nkind = \"integrity\"\nbelow = \"{file}\"\n");
                let _ = writeln!(out, "block_size = {}", quoted(&block.exact()));
            }
            let _ = write!(out, "\n[device.{file}]\nkind = \"file\"\npath = {}\n", quoted(path));
            let _ = writeln!(out, "size = {}", quoted(&size.exact()));
            if *is_device {
                let _ = write!(out, "direct = true\nsector = \"4 KiB\"\n");
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_stack::Stack;

    #[test]
    fn each_kind_reads_as_it_was_meant() {
        let member = |name: &str| Member {
            name: name.into(),
            path: format!("/a \"b\"/{name}.img"),
            size: ByteLen(64 << 20),
            is_device: name == "b",
            checksums: (name == "c").then_some(ByteLen(4096)),
        };
        for (kind, names) in [
            ("mirror", &["a", "b"][..]),
            ("hetero-mirror", &["a", "b"]),
            ("parity", &["a", "b", "c"]),
            ("stripe", &["a", "b"]),
            ("concat", &["a", "b"]),
            ("hybrid", &["slc", "disk"]),
            ("hybrid", &["slc", "mlc", "disk"]),
        ] {
            let over = OverFiles {
                comment: vec!["made for a test".into()],
                export: "data".into(),
                kind: kind.into(),
                options: if kind == "stripe" {
                    vec![("chunk".into(), "\"128 KiB\"".into())]
                } else {
                    Vec::new()
                },
                members: names.iter().map(|name| member(name)).collect(),
            };
            let text = over.to_text();
            let stack = Stack::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            stack.build(&Default::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let top = stack.devices.last().expect("a device");
            assert_eq!((top.name.as_str(), top.children.len()), (kind, names.len()));
        }
    }
}
