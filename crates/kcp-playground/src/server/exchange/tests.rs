use super::*;

#[test]
fn a_stale_list_asks_for_an_exact_earlier_state_whatever_the_client_asked_for() {
    assert_eq!(
        stale_query(Some("limit=5&resourceVersion=0&labelSelector=a%3Db"), 7),
        "limit=5&labelSelector=a%3Db&resourceVersion=7&resourceVersionMatch=Exact"
    );
    assert_eq!(
        stale_query(None, 0),
        "resourceVersion=1&resourceVersionMatch=Exact"
    );
}

#[test]
fn a_list_that_goes_on_is_not_made_stale_half_way() {
    assert_eq!(
        stale_query(Some("limit=5&continue=abc"), 7),
        "limit=5&continue=abc"
    );
}

#[test]
fn a_status_that_says_when_to_come_again_says_it_in_the_header_too() {
    let response = ApiResponse::from(injected(429));
    assert_eq!(response.status, 429);
    assert_eq!(response.headers["retry-after"], "1");
    assert!(ApiResponse::from(injected(500)).headers.is_empty());
}
