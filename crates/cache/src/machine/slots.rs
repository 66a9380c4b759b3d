//! Things under way, in places that are used again: nothing is allocated once as many were under way as ever will be.

/// Things by number.
#[derive(Clone, Debug)]
pub(super) struct Slots<T> {
    all: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { all: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    pub fn add(&mut self, thing: T) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.all[at as usize] = Some(thing);
                at
            }
            None => {
                self.all.push(Some(thing));
                self.all.len() as u32 - 1
            }
        }
    }

    pub fn take(&mut self, at: u32) -> T {
        self.free.push(at);
        self.all[at as usize].take().expect("a thing that is under way")
    }

    pub fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.all.iter_mut().enumerate().filter_map(|(at, thing)| Some((at as u32, thing.as_mut()?)))
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.all.iter().flatten()
    }
}

impl<T> std::ops::Index<u32> for Slots<T> {
    type Output = T;
    #[inline]
    fn index(&self, at: u32) -> &T {
        self.all[at as usize].as_ref().expect("a thing that is under way")
    }
}

impl<T> std::ops::IndexMut<u32> for Slots<T> {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut T {
        self.all[at as usize].as_mut().expect("a thing that is under way")
    }
}
