//! Waiting requests in the order of their first byte: what an elevator walks along.
//!
//! A treap over the slots of the [pending requests](crate::pending): a binary search tree by (first byte, slot) that is at the same time
//! a heap by a fixed scramble of the slot, which keeps it balanced without randomness. (Seidel and Aragon, "Randomized
//! search trees", Algorithmica 16, 1996.)
//!
//! Cost: O(log n) expected for every call, 24 bytes for a slot, nothing allocated once as many requests waited as ever
//! will.

/// No slot.
pub const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    left: u32,
    right: u32,
}

/// The links of all slots; several trees share one forest, for a slot is in at most one of them.
#[derive(Clone, Debug, Default)]
pub struct Forest(Vec<Node>);

/// One tree of a [`Forest`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tree(u32);

impl Default for Tree {
    fn default() -> Tree {
        Tree(NONE)
    }
}

/// Rank of a slot in the heap: a fixed scramble.
fn rank(slot: u32) -> u64 {
    let x = (u64::from(slot) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (x ^ (x >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

impl Forest {
    fn before(&self, a: u32, b: u32) -> bool {
        (self.0[a as usize].key, a) < (self.0[b as usize].key, b)
    }

    /// Puts `slot` into `tree` under `key`.
    pub fn insert(&mut self, tree: &mut Tree, slot: u32, key: u64) {
        if self.0.len() <= slot as usize {
            self.0.resize(slot as usize + 1, Node { key: 0, left: NONE, right: NONE });
        }
        self.0[slot as usize] = Node { key, left: NONE, right: NONE };
        tree.0 = self.put(tree.0, slot);
    }

    fn put(&mut self, root: u32, slot: u32) -> u32 {
        if root == NONE {
            return slot;
        }
        if rank(slot) > rank(root) {
            let (left, right) = self.split(root, slot);
            let node = &mut self.0[slot as usize];
            (node.left, node.right) = (left, right);
            return slot;
        }
        if self.before(slot, root) {
            let left = self.put(self.0[root as usize].left, slot);
            self.0[root as usize].left = left;
        } else {
            let right = self.put(self.0[root as usize].right, slot);
            self.0[root as usize].right = right;
        }
        root
    }

    /// The parts of the tree `root` before and behind `slot`.
    fn split(&mut self, root: u32, slot: u32) -> (u32, u32) {
        if root == NONE {
            return (NONE, NONE);
        }
        if self.before(root, slot) {
            let (left, right) = self.split(self.0[root as usize].right, slot);
            self.0[root as usize].right = left;
            (root, right)
        } else {
            let (left, right) = self.split(self.0[root as usize].left, slot);
            self.0[root as usize].left = right;
            (left, root)
        }
    }

    /// Takes `slot` out of `tree`, in which it is.
    pub fn remove(&mut self, tree: &mut Tree, slot: u32) {
        tree.0 = self.cut(tree.0, slot);
    }

    fn cut(&mut self, root: u32, slot: u32) -> u32 {
        assert!(root != NONE, "slot {slot} is not in this tree");
        let Node { left, right, .. } = self.0[root as usize];
        if root == slot {
            return self.merge(left, right);
        }
        if self.before(slot, root) {
            let left = self.cut(left, slot);
            self.0[root as usize].left = left;
        } else {
            let right = self.cut(right, slot);
            self.0[root as usize].right = right;
        }
        root
    }

    fn merge(&mut self, left: u32, right: u32) -> u32 {
        if left == NONE || right == NONE {
            return if left == NONE { right } else { left };
        }
        if rank(left) > rank(right) {
            let merged = self.merge(self.0[left as usize].right, right);
            self.0[left as usize].right = merged;
            left
        } else {
            let merged = self.merge(left, self.0[right as usize].left);
            self.0[right as usize].left = merged;
            right
        }
    }

    /// The slot with the smallest key that is not below `key`; of equal keys the lowest slot.
    pub fn at_or_after(&self, tree: Tree, key: u64) -> Option<u32> {
        let (mut at, mut found) = (tree.0, None);
        while at != NONE {
            let node = self.0[at as usize];
            if node.key >= key {
                found = Some(at);
                at = node.left;
            } else {
                at = node.right;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Against the obvious: an ordered set of pairs.
        #[test]
        fn it_is_an_ordered_set(steps in prop::collection::vec((0u32..40, 0u64..16, any::<bool>()), 1..300)) {
            let (mut forest, mut tree) = (Forest::default(), Tree::default());
            let mut set: BTreeSet<(u64, u32)> = BTreeSet::new();
            for (slot, key, look) in steps {
                match set.iter().find(|(_, s)| *s == slot).copied() {
                    Some(entry) => {
                        forest.remove(&mut tree, slot);
                        set.remove(&entry);
                    }
                    None => {
                        forest.insert(&mut tree, slot, key);
                        set.insert((key, slot));
                    }
                }
                if look {
                    let expected = set.range((key, 0)..).next().map(|&(_, s)| s);
                    prop_assert_eq!(forest.at_or_after(tree, key), expected);
                }
            }
            // In order to the end.
            let mut seen = Vec::new();
            while let Some(slot) = forest.at_or_after(tree, 0) {
                forest.remove(&mut tree, slot);
                seen.push(slot);
            }
            prop_assert_eq!(seen, set.iter().map(|&(_, s)| s).collect::<Vec<_>>());
        }
    }
}
