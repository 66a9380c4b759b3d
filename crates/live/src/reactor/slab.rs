//! Values in slots that are used again; a generation tells a slot's tenants apart.

/// Names a value: slot and generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub slot: u32,
    pub generation: u32,
}

/// The values.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub fn new() -> Slab<T> {
        Slab { slots: Vec::new(), free: Vec::new() }
    }

    pub fn insert(&mut self, value: T) -> Key {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            (self.slots.len() - 1) as u32
        });
        let entry = &mut self.slots[slot as usize];
        entry.0 = entry.0.wrapping_add(1) & 0x00FF_FFFF;
        entry.1 = Some(value);
        Key { slot, generation: entry.0 }
    }

    pub fn get(&self, key: Key) -> Option<&T> {
        let (generation, value) = self.slots.get(key.slot as usize)?;
        value.as_ref().filter(|_| *generation == key.generation)
    }

    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let (generation, value) = self.slots.get_mut(key.slot as usize)?;
        value.as_mut().filter(|_| *generation == key.generation)
    }

    pub fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        self.free.push(key.slot);
        self.slots[key.slot as usize].1.take()
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Every value, in slot order.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots.iter().enumerate().filter_map(|(slot, (generation, value))| {
            Some((Key { slot: slot as u32, generation: *generation }, value.as_ref()?))
        })
    }

    /// Names of all values, in slot order.
    pub fn keys(&self) -> Vec<Key> {
        self.iter().map(|(key, _)| key).collect()
    }
}
