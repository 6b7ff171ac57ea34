#include "apps/load/load_group.h"

namespace cw::load {

const Progress& LoadGroup::progress() {
  *sum_ = apps_.front()->progress();
  for (size_t i = 1; i < apps_.size(); ++i) {
    const Progress& other = apps_[i]->progress();
    sum_->stats.merge(other.stats);
    sum_->gauges.connected += other.gauges.connected;
    sum_->gauges.in_flight += other.gauges.in_flight;
    sum_->gauges.queued += other.gauges.queued;
    sum_->wanted += other.wanted;
    sum_->waiting_to_resend += other.waiting_to_resend;
    if (other.given_up > 0) {
      sum_->given_up += other.given_up;
      sum_->last_rejection = other.last_rejection;
      sum_->last_qp_error = other.last_qp_error;
    }
  }
  return *sum_;
}

LoadStats LoadGroup::begin() {
  LoadStats sum = apps_.front()->begin();
  for (size_t i = 1; i < apps_.size(); ++i) {
    sum.merge(apps_[i]->begin());
  }
  return sum;
}

void LoadGroup::stop() {
  for (LoadApp* app : apps_) {
    app->stop();
  }
}

}  // namespace cw::load
