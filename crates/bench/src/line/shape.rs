//! People, their skills, and the skills required by each item of the line: all derived from numbers.

use std::collections::BTreeSet;

pub(super) const QUEUES: usize = 10;
pub(super) const SKILLS: usize = 20;
pub(super) const PEOPLE: usize = 100;
pub(super) const OVERLAP: usize = 2;

/// A line of `items` items, `i-1` to `i-{items}`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineShape {
    pub(crate) items: usize,
}

impl LineShape {
    pub(crate) fn queue_name(number: usize) -> String {
        format!("q{}", number % QUEUES)
    }

    pub(crate) fn queue_names() -> impl Iterator<Item = String> {
        (0..QUEUES).map(Self::queue_name)
    }

    pub(crate) fn people_numbers() -> std::ops::Range<usize> {
        0..PEOPLE
    }

    pub(crate) fn person_name(number: usize) -> String {
        format!("p{number}")
    }

    /// People with every skill.
    pub(crate) fn all_rounders() -> Vec<usize> {
        Self::people_numbers().filter(|person| Self::person_skills(*person).len() == SKILLS).collect()
    }

    /// From three skills, which match one item in 1,140, to all of them.
    pub(crate) fn person_skills(person: usize) -> BTreeSet<String> {
        (0..3 + person % (SKILLS - 2)).map(|n| format!("s{}", (n * 7 + person) % SKILLS)).collect()
    }

    /// All sets of three skills, in the order of their numbers from 1 on.
    pub(super) fn skill_sets() -> Vec<[String; 3]> {
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
    pub(crate) fn barred_person(item: usize) -> usize {
        item * 31 / 7 % PEOPLE
    }

    /// The head of the line: the first hundredth.
    pub(crate) fn head_length(self) -> usize {
        self.items / 100
    }

    /// Whether the line is long enough that every request gets an item.
    pub(crate) fn is_long_enough(self) -> bool {
        self.items >= 200_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_people_have_three_skills_minimum() {
        let counts: BTreeSet<usize> =
            LineShape::people_numbers().map(|person| LineShape::person_skills(person).len()).collect();
        assert_eq!(counts, (3..=SKILLS).collect());
        assert_eq!(LineShape::all_rounders(), [17, 35, 53, 71, 89]);
    }

    #[test]
    fn line_skill_sets_are_complete() {
        let sets = LineShape::skill_sets();
        assert_eq!(sets.len(), 1140);
        assert_eq!(sets.iter().collect::<BTreeSet<_>>().len(), 1140);
    }

    #[test]
    fn one_percent_of_items_is_barred() {
        let mut counts = [0; PEOPLE];
        (1..=100_000).for_each(|item| counts[LineShape::barred_person(item)] += 1);
        assert!(counts.iter().all(|count| (900..=1100).contains(count)), "{counts:?}");
    }
}
