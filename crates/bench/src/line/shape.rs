//! People, their skills, and the skills required by each item of the line: all derived from numbers.

use std::collections::BTreeSet;

pub(super) const QUEUES: usize = 10;
pub(super) const SKILLS: usize = 20;
pub(super) const PEOPLE: usize = 100;
pub(super) const OVERLAP: usize = 2;

/// A line of `items` items, `i-1` to `i-{items}`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) items: usize,
}

impl Shape {
    pub(crate) fn queue(number: usize) -> String {
        format!("q{}", number % QUEUES)
    }

    pub(crate) fn queues() -> impl Iterator<Item = String> {
        (0..QUEUES).map(Self::queue)
    }

    pub(crate) fn people() -> std::ops::Range<usize> {
        0..PEOPLE
    }

    pub(crate) fn person(number: usize) -> String {
        format!("p{number}")
    }

    /// People with every skill.
    pub(crate) fn all_rounders() -> Vec<usize> {
        Self::people().filter(|person| Self::skills(*person).len() == SKILLS).collect()
    }

    /// From three skills, which match one item in 1,140, to all of them.
    pub(crate) fn skills(person: usize) -> BTreeSet<String> {
        (0..3 + person % (SKILLS - 2)).map(|n| format!("s{}", (n * 7 + person) % SKILLS)).collect()
    }

    /// All sets of three skills, in the order of their numbers from 1 on.
    pub(super) fn sets() -> Vec<[String; 3]> {
        let mut sets = Vec::new();
        for a in 0..SKILLS {
            for b in a + 1..SKILLS {
                for c in b + 1..SKILLS {
                    sets.push([a, b, c].map(|skill| format!("s{skill}")));
                }
            }
        }
        sets
    }

    /// The person barred from an item: one person in a hundred, so one item in a hundred for each.
    pub(crate) fn barred(item: usize) -> usize {
        item * 31 / 7 % PEOPLE
    }

    /// The head of the line: the first hundredth.
    pub(crate) fn head(self) -> usize {
        self.items / 100
    }

    /// Whether the line is long enough that every request gets an item.
    pub(crate) fn suffices(self) -> bool {
        self.items >= 200_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_have_from_three_skills_to_all_of_them() {
        let counts: BTreeSet<usize> = Shape::people().map(|person| Shape::skills(person).len()).collect();
        assert_eq!(counts, (3..=SKILLS).collect());
        assert_eq!(Shape::all_rounders(), [17, 35, 53, 71, 89]);
    }

    #[test]
    fn there_are_as_many_sets_as_ways_to_choose_three_of_twenty() {
        let sets = Shape::sets();
        assert_eq!(sets.len(), 1140);
        assert_eq!(sets.iter().collect::<BTreeSet<_>>().len(), 1140);
    }

    #[test]
    fn one_item_in_a_hundred_is_barred_for_each_person() {
        let mut counts = [0; PEOPLE];
        (1..=100_000).for_each(|item| counts[Shape::barred(item)] += 1);
        assert!(counts.iter().all(|count| (900..=1100).contains(count)), "{counts:?}");
    }
}
