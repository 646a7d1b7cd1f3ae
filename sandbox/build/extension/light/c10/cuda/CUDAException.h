#pragma once
#include <khost_torch.h>
