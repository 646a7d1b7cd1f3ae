// Exchanges between the cards of several ranks.
#pragma once

#include "trainer/accelerator.h"

namespace khost::trainer::cuda {

// See Accelerator::join.
std::unique_ptr<DeviceRanks> join_cards(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                        double timeout_s);

}  // namespace khost::trainer::cuda
