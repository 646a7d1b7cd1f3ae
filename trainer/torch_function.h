// Adds torch::autograd::Function, for operators with a backward pass of their own. It costs ten more seconds
// a file, so one file, model/functions.cpp, includes it.
#pragma once

#include "trainer/torch.h"

#include <torch/csrc/autograd/custom_function.h>
