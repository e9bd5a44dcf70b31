//! The list of all cases: the only place that names them.

/// Expands to one test per case. See [the suite](crate::conformance).
#[macro_export]
macro_rules! stream_conformance_tests {
    ($bench:expr) => {
        $crate::stream_conformance_tests! { @expand $bench;
            ring {
                a_bell_rung_before_anybody_joined_is_read,
                a_bell_comes_back_as_it_was_rung,
                each_entry_goes_to_exactly_one_consumer,
                a_reader_hears_only_its_lanes,
                one_read_takes_no_more_than_asked_from_a_lane,
                a_backlog_in_one_lane_does_not_hide_another,
                a_blocked_reader_wakes_when_a_bell_rings,
                a_read_that_finds_nothing_ends_with_its_block,
                a_read_without_block_returns_at_once,
                ringing_nothing_is_nothing,
                one_bell_twice_in_a_call_is_one_entry,
                a_bell_rung_after_it_was_read_is_heard_again,
                a_large_batch_arrives_whole,
                a_reader_of_no_lanes_hears_nothing,
            }
            share {
                a_backlog_of_one_tenant_does_not_stand_in_front_of_another,
                a_backlog_arrives_whole_and_in_its_order,
                a_backlog_is_counted_whole,
                of_a_tenant_that_is_full_little_comes_until_more_is_wanted,
                a_backlog_that_was_left_behind_is_found_by_a_reader_with_nothing_to_read,
                a_backlog_that_one_reader_left_is_taken_by_another,
                a_recount_changes_nothing_that_is_right,
            }
            pending {
                what_is_read_is_pending_and_not_read_again,
                anybody_may_acknowledge,
                acknowledging_again_or_nothing_is_harmless,
                what_is_acknowledged_never_comes_back,
                acknowledging_leaves_the_others_pending,
            }
            reclaim {
                fresh_entries_are_left_alone,
                an_idle_entry_is_taken_over_once_and_marked,
                entries_of_a_dropped_reader_are_taken_over,
                no_more_than_asked_are_taken_and_the_rest_follows,
                idle_entries_behind_many_fresh_ones_are_found,
                a_refreshed_entry_is_left_alone,
                refreshing_does_not_take_an_entry_back,
                refreshing_what_is_gone_is_harmless,
            }
            care {
                the_generation_stays_while_nothing_is_lost,
                stats_count_waiting_and_pending_by_lane,
                a_consumer_with_pending_entries_is_never_removed,
                a_consumer_known_to_be_gone_is_removed_at_once,
                an_idle_consumer_is_removed_and_a_fresh_one_is_kept,
                a_removed_consumer_comes_back_with_its_next_entry,
                a_sound_server_passes_the_check,
            }
            lock {
                a_lock_has_one_holder,
                answers_come_in_the_order_of_the_keys,
                a_holder_may_take_its_lock_again,
                a_lock_ends_with_its_ttl,
                extending_keeps_a_lock_beyond_its_ttl,
                only_the_holder_extends,
                only_the_holder_releases,
                a_stale_token_leaves_the_next_holder_alone,
                tenants_do_not_share_locks,
                no_keys_are_no_locks,
            }
            lock_rounds {
                eight_tasks_never_hold_one_lock_together,
                a_large_batch_of_locks_is_taken_and_released_whole,
            }
            hear {
                news_reach_every_listener,
                a_large_batch_of_news_arrives_whole_and_in_order,
                a_listener_hears_what_comes_after_it,
                announcing_to_nobody_is_no_error,
            }
        }
    };
    (@expand $bench:expr; $($topic:ident { $($case:ident,)+ })+) => {
        $(
            mod $topic {
                #[allow(unused_imports, reason = "the bench expression names what its file imports")]
                use super::*;

                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $case() {
                        $crate::conformance::$topic::$case($bench).await;
                    }
                )+
            }
        )+
    };
}
