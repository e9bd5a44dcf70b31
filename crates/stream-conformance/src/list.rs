//! The list of all cases: the only place that names them.

/// Expands to one test per case. See [the suite](crate).
#[macro_export]
macro_rules! stream_conformance_tests {
    ($bench:expr) => {
        $crate::stream_conformance_tests! { @expand $bench;
            publish {
                doorbell_before_first_reader_is_delivered,
                doorbell_round_trips_unchanged,
                entry_goes_to_exactly_one_consumer,
                reader_receives_only_its_lanes,
                read_respects_per_lane_maximum,
                lane_backlog_hides_no_other_lane,
                blocked_reader_wakes_on_doorbell,
                empty_read_ends_with_its_block,
                read_without_block_returns_at_once,
                publishing_no_doorbells_is_harmless,
                duplicate_doorbell_in_call_is_coalesced,
                read_doorbell_can_ring_again,
                large_doorbell_batch_arrives_whole,
                reader_without_lanes_receives_nothing,
            }
            fairness {
                tenant_backlog_does_not_delay_others,
                tenant_backlog_arrives_in_order,
                lane_stats_count_whole_backlog,
                full_tenant_overflow_waits_for_replenish,
                idle_reader_finds_left_overflow,
                another_reader_takes_left_overflow,
                recount_keeps_correct_counts,
            }
            pending {
                delivered_entry_is_pending,
                any_consumer_may_acknowledge,
                repeated_acknowledgement_is_harmless,
                acknowledged_entry_never_returns,
                acknowledgement_keeps_other_entries_pending,
                acknowledgement_out_of_order_removes_exactly_its_entries,
            }
            reclaim {
                reclaim_leaves_fresh_entries,
                idle_entry_is_reclaimed_once,
                dropped_reader_entries_are_reclaimed,
                reclaim_respects_its_maximum,
                reclaim_scans_past_fresh_entries,
                refreshed_entry_is_not_reclaimed,
                refresh_never_takes_entry_back,
                refresh_of_missing_entry_is_harmless,
            }
            maintenance {
                generation_is_stable_without_loss,
                lane_stats_count_waiting_and_pending,
                consumer_with_pending_entries_is_kept,
                gone_consumer_is_removed_at_once,
                only_idle_consumer_is_removed,
                removed_consumer_returns_with_next_entry,
                sound_server_passes_check,
            }
            lock {
                lock_has_one_holder,
                lock_answers_follow_key_order,
                holder_may_acquire_lock_again,
                lock_expires_with_its_ttl,
                extended_lock_outlives_its_ttl,
                only_holder_extends_lock,
                only_holder_releases_lock,
                stale_token_cannot_release_lock,
                locks_are_separate_per_tenant,
                empty_key_list_locks_nothing,
            }
            lock_rounds {
                contended_lock_has_one_holder,
                large_lock_batch_is_atomic,
            }
            announcements {
                announcements_reach_every_listener,
                large_announcement_batch_arrives_in_order,
                listener_receives_later_announcements,
                announcing_without_listener_succeeds,
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
                        $crate::$topic::$case($bench).await;
                    }
                )+
            }
        )+
    };
}
