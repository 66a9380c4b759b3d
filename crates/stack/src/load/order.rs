//! The order of devices, who may share what, and the hash of a stack.
//!
//! **Order.** Exports in the order of the file; each device after its children, those in their own order. A device that
//! was reached before keeps its place. So the order depends on exports and children alone, not on where a device's
//! table stands.

use super::error::Reason;
use super::tree::{Data, Node};
use super::{ExportTable, Found, Loader, section};
use nandu_base::TenantId;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    /// On the path from an export to here.
    Open,
    Placed,
}

impl Loader<'_> {
    /// Sorts the devices so that children come first; reports missing children, cycles and unused devices.
    pub(super) fn order<'f>(
        &mut self,
        devices: Vec<Found<'f>>,
        exports: &[(String, ExportTable, TenantId)],
    ) -> Option<Vec<Found<'f>>> {
        let number: BTreeMap<&str, usize> = devices.iter().enumerate().map(|(i, d)| (d.name, i)).collect();
        let links = self.links(&devices, &number)?;
        let mut marks = vec![Mark::New; devices.len()];
        let mut order = Vec::with_capacity(devices.len());
        for (_, export, _) in exports {
            let root = number[export.device.as_str()];
            if let Some(cycle) = place(root, &links, &mut marks, &mut order) {
                let devices_of_cycle = cycle.iter().map(|&i| devices[i].name.to_string()).collect();
                self.push(devices[cycle[0]].entry.origin, Reason::Cycle { devices: devices_of_cycle });
                return None;
            }
        }
        for (device, mark) in devices.iter().zip(&marks) {
            if *mark == Mark::New {
                self.push(device.entry.origin, Reason::Unused { device: device.name.into() });
            }
        }
        self.exported_twice(&devices, &links, exports);
        let mut slots: Vec<Option<Found<'f>>> = devices.into_iter().map(Some).collect();
        Some(order.into_iter().filter_map(|i| slots[i].take()).collect())
    }

    /// The children of each device by number. `None` when a child is missing.
    fn links(&mut self, devices: &[Found<'_>], number: &BTreeMap<&str, usize>) -> Option<Vec<Vec<usize>>> {
        let mut complete = true;
        let mut links = Vec::with_capacity(devices.len());
        for device in devices {
            let mut below = Vec::with_capacity(device.children.len());
            for child in &device.children {
                match number.get(child.as_str()) {
                    Some(&at) => below.push(at),
                    None => {
                        complete = false;
                        let origin =
                            mention(&device.entry.node, child).map_or(device.entry.origin, |n| n.origin);
                        self.unknown(
                            origin,
                            "device",
                            child,
                            devices.iter().map(|d| d.name.into()).collect(),
                        );
                    }
                }
            }
            links.push(below);
        }
        complete.then_some(links)
    }

    /// A device that an export writes to must not stand below another device, which would write to it too.
    fn exported_twice(
        &mut self,
        devices: &[Found<'_>],
        links: &[Vec<usize>],
        exports: &[(String, ExportTable, TenantId)],
    ) {
        for (name, export, _) in exports {
            let user = links.iter().position(|below| below.iter().any(|&i| devices[i].name == export.device));
            if let Some(user) = user {
                let reason = Reason::Shared {
                    device: export.device.clone(),
                    first: format!("export `{name}`"),
                    second: format!("device `{}`", devices[user].name),
                };
                self.push(devices[user].entry.origin, reason);
            }
        }
    }
}

/// Places `root` behind everything it stands on. Some: the devices of a cycle, the first one again at the end.
fn place(
    root: usize,
    links: &[Vec<usize>],
    marks: &mut [Mark],
    order: &mut Vec<usize>,
) -> Option<Vec<usize>> {
    if marks[root] == Mark::Placed {
        return None;
    }
    // The path from the root, with the next child of each to visit.
    let mut path = vec![(root, 0)];
    marks[root] = Mark::Open;
    while let Some((device, next)) = path.last_mut() {
        let Some(&child) = links[*device].get(*next) else {
            marks[*device] = Mark::Placed;
            order.push(*device);
            path.pop();
            continue;
        };
        *next += 1;
        match marks[child] {
            Mark::Placed => {}
            Mark::New => {
                marks[child] = Mark::Open;
                path.push((child, 0));
            }
            Mark::Open => {
                let from = path.iter().position(|&(d, _)| d == child).unwrap_or_default();
                let cycle = path[from..].iter().map(|&(d, _)| d).chain([child]);
                return Some(cycle.collect());
            }
        }
    }
    None
}

/// Where the options of a device say `word`.
fn mention<'n>(node: &'n Node, word: &str) -> Option<&'n Node> {
    match &node.data {
        Data::Scalar(value) => (value.as_str() == Some(word)).then_some(node),
        Data::Array(items) => items.iter().find_map(|item| mention(item, word)),
        Data::Table(entries) => entries
            .iter()
            .filter(|e| !super::COMMON.contains(&e.key.as_str()))
            .find_map(|e| mention(&e.node, word)),
    }
}

/// SHA-256 of the canonical text, as hex: devices in their order, then exports, tenants, workloads and changes in the order of
/// the file; keys sorted; descriptions, comments and spelling of TOML left out.
pub(super) fn hash(root: &Node, devices: &[Found<'_>]) -> String {
    let mut text = String::new();
    for device in devices {
        render(&mut text, "device", device.name, &device.entry.node);
    }
    for name in ["export", "tenant", "workload", "change"] {
        for entry in section(root, name) {
            render(&mut text, name, &entry.key, &entry.node);
        }
    }
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

fn render(text: &mut String, section: &str, name: &str, node: &Node) {
    let _ = writeln!(text, "{section}.{name} {}", toml::Value::Table(node.to_table(&["description"])));
}
