//! All points of a sweep: the product of its axes without what is skipped, in a fixed order.
//!
//! The last axis runs fastest, as in nested loops in the order of the file.

use crate::axis::{Axis, Setting, Step};
use crate::error::{SweepError, known};

/// Most points of a sweep.
pub const POINTS: usize = 262_144;
/// Most points before some are skipped.
const PRODUCT: usize = 1 << 24;

/// Points to leave out: those that lie, on every axis that is named, at one of the steps that are named.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Skip {
    /// Axis and names of steps.
    pub at: Vec<(String, Vec<String>)>,
}

/// All points.
#[derive(Clone, Debug)]
pub struct Space {
    axes: Vec<Axis>,
    /// Place of each point in the whole product.
    kept: Vec<u32>,
}

impl Space {
    /// The product of `axes` without what `skips` leave out.
    pub fn new(axes: Vec<Axis>, skips: &[Skip]) -> Result<Space, SweepError> {
        let right = "vary fewer parameters, or fewer values of each";
        let product =
            axes.iter().try_fold(1usize, |n, a| n.checked_mul(a.steps.len()).filter(|n| *n <= PRODUCT));
        let Some(product) = product else {
            return Err(SweepError::bad("the axes", format!("they make more than {PRODUCT} points"), right));
        };
        apart(&axes)?;
        let skips: Vec<Vec<(usize, Vec<usize>)>> =
            skips.iter().map(|s| places(s, &axes)).collect::<Result<_, _>>()?;
        let mut space = Space { axes, kept: Vec::new() };
        for raw in 0..product {
            let steps = space.unpack(raw);
            let skipped = skips.iter().any(|s| s.iter().all(|(axis, at)| at.contains(&steps[*axis])));
            if !skipped {
                space.kept.push(raw as u32);
            }
        }
        match space.kept.len() {
            0 => Err(SweepError::bad("[[skip]]", "every point is skipped", "leave at least one")),
            n if n > POINTS => {
                Err(SweepError::bad("the axes", format!("they make {n} points, at most {POINTS}"), right))
            }
            _ => Ok(space),
        }
    }

    /// The axes.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Points; at least one.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// For each axis the number of the step at which `point` lies.
    pub fn steps(&self, point: usize) -> Vec<usize> {
        self.unpack(self.kept[point] as usize)
    }

    fn unpack(&self, mut raw: usize) -> Vec<usize> {
        let mut steps = vec![0; self.axes.len()];
        for (step, axis) in steps.iter_mut().zip(&self.axes).rev() {
            *step = raw % axis.steps.len();
            raw /= axis.steps.len();
        }
        steps
    }

    /// For each axis the name of the step.
    pub fn names(&self, point: usize) -> Vec<&str> {
        self.steps(point).into_iter().zip(&self.axes).map(|(s, a)| a.steps[s].name.as_str()).collect()
    }

    /// What makes the base stack that of `point`. What is left out comes last: one axis may leave out the device whose parameter
    /// another sets.
    pub fn settings(&self, point: usize) -> Vec<&Setting> {
        let steps = self.steps(point).into_iter().zip(&self.axes);
        let mut all: Vec<&Setting> = steps.flat_map(|(s, a)| &a.steps[s].settings).collect();
        all.sort_by_key(|s| s.value.is_none());
        all
    }

    /// The point in words: `ratio 0.1, spin_down 2 s`.
    pub fn label(&self, point: usize) -> String {
        self.label_with(point, |_, _| String::new())
    }

    /// The point in words, with what is to be said of each step behind its name.
    pub fn label_with(&self, point: usize, say: impl Fn(&Axis, &Step) -> String) -> String {
        let steps = self.axes.iter().zip(self.steps(point)).map(|(axis, step)| (axis, &axis.steps[step]));
        let parts = steps.map(|(axis, step)| format!("{} {}{}", axis.name, step.name, say(axis, step)));
        match self.axes.is_empty() {
            true => "as it is".into(),
            false => parts.collect::<Vec<_>>().join(", "),
        }
    }
}

/// No two axes have one name or set one parameter.
fn apart(axes: &[Axis]) -> Result<(), SweepError> {
    for (i, axis) in axes.iter().enumerate() {
        let place = || format!("axis `{}`", axis.name);
        let paths = |a: &Axis| {
            a.steps.iter().flat_map(|s| s.settings.iter().map(|s| s.path.clone())).collect::<Vec<_>>()
        };
        let mine = paths(axis);
        for other in &axes[..i] {
            if other.name == axis.name {
                return Err(SweepError::bad(place(), "two axes have this name", "give one of them another"));
            }
            if let Some(path) = paths(other).into_iter().find(|p| mine.contains(p)) {
                let what = format!("`{path}` is also set by axis `{}`", other.name);
                return Err(SweepError::bad(place(), what, "a parameter belongs to one axis"));
            }
        }
    }
    Ok(())
}

fn places(skip: &Skip, axes: &[Axis]) -> Result<Vec<(usize, Vec<usize>)>, SweepError> {
    let mut out = Vec::new();
    for (name, wanted) in &skip.at {
        let Some(axis) = axes.iter().position(|a| a.name == *name) else {
            let right = known(name, axes.iter().map(|a| a.name.as_str()));
            return Err(SweepError::bad("[[skip]]", format!("unknown axis `{name}`"), right));
        };
        let step = |word: &String| {
            axes[axis].steps.iter().position(|s| s.name == *word).ok_or_else(|| {
                let right = known(word, axes[axis].steps.iter().map(|s| s.name.as_str()));
                SweepError::bad("[[skip]]", format!("axis `{name}` has no step `{word}`"), right)
            })
        };
        out.push((axis, wanted.iter().map(step).collect::<Result<_, _>>()?));
    }
    match out.is_empty() {
        true => {
            Err(SweepError::bad("[[skip]]", "it names no axis", "write for example ratio = [\"0\", \"1\"]"))
        }
        false => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Vec<Axis> {
        ["device.a.x=1,2", "device.a.y=p,q,r"].map(|t| Axis::parse(t).unwrap()).to_vec()
    }

    #[test]
    fn the_last_axis_runs_fastest() {
        let space = Space::new(axes(), &[]).unwrap();
        let all: Vec<Vec<&str>> = (0..space.len()).map(|p| space.names(p)).collect();
        assert_eq!(all, [["1", "p"], ["1", "q"], ["1", "r"], ["2", "p"], ["2", "q"], ["2", "r"]]);
        assert_eq!(space.label(4), "x 2, y q");
        assert_eq!(Space::new(Vec::new(), &[]).unwrap().len(), 1);
    }

    #[test]
    fn what_is_skipped_is_gone_and_the_rest_keeps_its_order() {
        let skip = |x: &[&str], y: &[&str]| {
            let list = |l: &[&str]| l.iter().map(|s| s.to_string()).collect();
            Skip { at: vec![("x".into(), list(x)), ("y".into(), list(y))] }
        };
        let space = Space::new(axes(), &[skip(&["1"], &["q", "r"])]).unwrap();
        let all: Vec<String> = (0..space.len()).map(|p| space.names(p).concat()).collect();
        assert_eq!(all, ["1p", "2p", "2q", "2r"]);
        let wrong = |s: Skip| Space::new(axes(), &[s]).map(|_| ()).unwrap_err().to_string();
        assert_eq!(wrong(skip(&["3"], &["p"])), "[[skip]]: axis `x` has no step `3`; known: 1, 2");
        assert!(wrong(skip(&["1", "2"], &["p", "q", "r"])).contains("every point is skipped"));
        assert!(wrong(Skip::default()).contains("names no axis"));
    }

    #[test]
    fn a_parameter_belongs_to_one_axis_and_points_are_bounded() {
        let two = |a: &str, b: &str| {
            let axes = vec![Axis::parse(a).unwrap(), Axis::parse(b).unwrap()];
            Space::new(axes, &[]).map(|_| ()).unwrap_err().to_string()
        };
        assert!(two("a.x=1,2", "b.x=1,2").contains("two axes have this name"));
        assert!(two("a.x=1,2;a.y=1,2", "a.z=1;a.y=3").contains("also set by axis `x`"));
        assert!(two("a.x=1..600+1", "a.y=1..600+1").contains("262144"));
        let three =
            ["a.x=1..4000+1", "a.y=1..4000+1", "a.z=1..4000+1"].map(|t| Axis::parse(t).unwrap()).to_vec();
        assert!(Space::new(three, &[]).is_err());
    }
}
